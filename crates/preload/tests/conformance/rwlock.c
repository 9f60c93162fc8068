#include "cases.h"

static void *tryrdlock(void *rwlock)
{
	int code = pthread_rwlock_tryrdlock(rwlock);

	if (code == 0)
		CODE(pthread_rwlock_unlock(rwlock), 0);
	return (void *)(long)code;
}

static void *trywrlock(void *rwlock)
{
	int code = pthread_rwlock_trywrlock(rwlock);

	if (code == 0)
		CODE(pthread_rwlock_unlock(rwlock), 0);
	return (void *)(long)code;
}

static int told(void *(*work)(void *), pthread_rwlock_t *rwlock)
{
	return (int)(long)elsewhere(work, rwlock);
}

static void init(pthread_rwlock_t *rwlock, int kind, int shared)
{
	pthread_rwlockattr_t attributes;

	CODE(pthread_rwlockattr_init(&attributes), 0);
	CODE(pthread_rwlockattr_setkind_np(&attributes, kind), 0);
	CODE(pthread_rwlockattr_setpshared(&attributes, shared), 0);
	CODE(pthread_rwlock_init(rwlock, &attributes), 0);
}

static void *wait_in_vain(void *rwlock)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	int i;

	for (i = 0; i < 2; i++) {
		struct timespec at = in_ms(clocks[i], 5);

		CODE(pthread_rwlock_clockwrlock(rwlock, clocks[i], &at), ETIMEDOUT);
		EXPECT(has_passed(clocks[i], at));
		CODE(pthread_rwlock_clockwrlock(rwlock, clocks[i], &past), ETIMEDOUT);
		CODE(pthread_rwlock_clockwrlock(rwlock, clocks[i], &malformed), EINVAL);
	}
	CODE(pthread_rwlock_timedwrlock(rwlock, &past), ETIMEDOUT);
	CODE(pthread_rwlock_timedwrlock(rwlock, &negative), EINVAL);
	return NULL;
}

static void *wait_in_vain_to_read(void *rwlock)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 5);

	CODE(pthread_rwlock_timedrdlock(rwlock, &at), ETIMEDOUT);
	EXPECT(has_passed(CLOCK_REALTIME, at));
	at = in_ms(CLOCK_MONOTONIC, 5);
	CODE(pthread_rwlock_clockrdlock(rwlock, CLOCK_MONOTONIC, &at), ETIMEDOUT);
	EXPECT(has_passed(CLOCK_MONOTONIC, at));
	CODE(pthread_rwlock_timedrdlock(rwlock, &malformed), EINVAL);
	return wait_in_vain(rwlock);
}

static void codes(pthread_rwlock_t *rwlock)
{
	CODE(pthread_rwlock_rdlock(rwlock), 0);
	CODE(told(tryrdlock, rwlock), 0);
	CODE(told(trywrlock, rwlock), EBUSY);
	elsewhere(wait_in_vain, rwlock);
	CODE(pthread_rwlock_tryrdlock(rwlock), 0);
	CODE(pthread_rwlock_timedrdlock(rwlock, &past), 0);
	CODE(pthread_rwlock_trywrlock(rwlock), EBUSY);
	CODE(pthread_rwlock_timedwrlock(rwlock, &past), ETIMEDOUT);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(told(trywrlock, rwlock), EBUSY);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(told(trywrlock, rwlock), 0);

	CODE(pthread_rwlock_wrlock(rwlock), 0);
	CODE(told(tryrdlock, rwlock), EBUSY);
	CODE(told(trywrlock, rwlock), EBUSY);
	elsewhere(wait_in_vain_to_read, rwlock);
	CODE(pthread_rwlock_wrlock(rwlock), EDEADLK);
	CODE(pthread_rwlock_rdlock(rwlock), EDEADLK);
	CODE(pthread_rwlock_timedrdlock(rwlock, &past), EDEADLK);
	CODE(pthread_rwlock_timedwrlock(rwlock, &past), EDEADLK);
	CODE(pthread_rwlock_tryrdlock(rwlock), EBUSY);
	CODE(pthread_rwlock_trywrlock(rwlock), EBUSY);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(told(trywrlock, rwlock), 0);

	CODE(pthread_rwlock_timedwrlock(rwlock, &past), 0);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(pthread_rwlock_clockwrlock(rwlock, CLOCK_MONOTONIC, &past), 0);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(pthread_rwlock_clockrdlock(rwlock, CLOCK_MONOTONIC, &past), 0);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(pthread_rwlock_timedrdlock(rwlock, &malformed), EINVAL);
	CODE(pthread_rwlock_timedwrlock(rwlock, &negative), EINVAL);
	CODE(pthread_rwlock_clockrdlock(rwlock, CLOCK_MONOTONIC, &negative), EINVAL);
	CODE(pthread_rwlock_clockwrlock(rwlock, CLOCK_MONOTONIC, &malformed), EINVAL);
	CODE(pthread_rwlock_clockwrlock(rwlock, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
	CODE(pthread_rwlock_clockrdlock(rwlock, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
	CODE(pthread_rwlock_destroy(rwlock), 0);
}

static void rwlock_codes(void)
{
	pthread_rwlock_t by_default = PTHREAD_RWLOCK_INITIALIZER;
	pthread_rwlock_t by_kind = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	pthread_rwlock_t rwlock;
	int kind;

	codes(&by_default);
	codes(&by_kind);
	CODE(pthread_rwlock_init(&rwlock, NULL), 0);
	codes(&rwlock);
	for (kind = PTHREAD_RWLOCK_PREFER_READER_NP; kind <= PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; kind++) {
		init(&rwlock, kind, 0);
		codes(&rwlock);
		init(&rwlock, kind, PTHREAD_PROCESS_SHARED);
		codes(&rwlock);
	}
}

static void *write_once(void *rwlock)
{
	CODE(pthread_rwlock_wrlock(rwlock), 0);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	return NULL;
}

static void *read_once(void *rwlock)
{
	CODE(pthread_rwlock_rdlock(rwlock), 0);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	return NULL;
}

/* A thread that reads may read again while a writer waits; and may wait for another that
 * reads. */
static void readers_pass_a_waiting_writer(void)
{
	int kind, i;

	for (kind = PTHREAD_RWLOCK_PREFER_READER_NP; kind <= PTHREAD_RWLOCK_PREFER_WRITER_NP; kind++) {
		pthread_rwlock_t rwlock;
		pthread_t writer;

		init(&rwlock, kind, 0);
		CODE(pthread_rwlock_rdlock(&rwlock), 0);
		writer = started(write_once, &rwlock);
		for (i = 0; i < 10; i++)
			let_run(); /* it waits by now, or this shows nothing */
		CODE(pthread_rwlock_rdlock(&rwlock), 0);
		CODE(pthread_rwlock_tryrdlock(&rwlock), 0);
		elsewhere(read_once, &rwlock);
		for (i = 0; i < 3; i++)
			CODE(pthread_rwlock_unlock(&rwlock), 0);
		pthread_join(writer, NULL);
		CODE(pthread_rwlock_destroy(&rwlock), 0);
	}
}

/* Where writers come first, a reader stays behind one that waits. */
static void a_writer_comes_first(void)
{
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	pthread_t writer;

	CODE(pthread_rwlock_rdlock(&rwlock), 0);
	writer = started(write_once, &rwlock);
	while (told(tryrdlock, &rwlock) == 0)
		let_run();
	CODE(pthread_rwlock_unlock(&rwlock), 0);
	pthread_join(writer, NULL);
	CODE(pthread_rwlock_destroy(&rwlock), 0);
}

static void *nothing(void *argument)
{
	return argument;
}

/* A thread that ends may lock as late as its last memory is freed (early.c), and those that
 * come have its stack. None of that touches one that sleeps. */
static void threads_come_and_go_while_others_wait(void)
{
	enum { MOST = 4 };
	int i, j;

	for (i = 0; i < 16 * MOST; i++) {
		pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
		pthread_t writers[MOST];

		CODE(pthread_rwlock_rdlock(&rwlock), 0);
		for (j = 0; j <= i % MOST; j++)
			writers[j] = started(write_once, &rwlock);
		for (j = 0; j < 4; j++) {
			let_run();
			elsewhere(nothing, NULL);
			elsewhere(tryrdlock, &rwlock);
		}
		CODE(pthread_rwlock_unlock(&rwlock), 0);
		for (j = 0; j <= i % MOST; j++)
			pthread_join(writers[j], NULL);
		CODE(pthread_rwlock_destroy(&rwlock), 0);
	}
}

struct pair {
	pthread_rwlock_t *rwlock;
	long one, other;
};

enum { THREADS = 4, TIMES = 2000 };

static void *read_and_write(void *argument)
{
	struct pair *pair = argument;
	int i;

	for (i = 0; i < TIMES; i++) {
		if (i % 4) {
			CODE(pthread_rwlock_rdlock(pair->rwlock), 0);
			EXPECT(pair->one == pair->other);
		} else {
			CODE(pthread_rwlock_wrlock(pair->rwlock), 0);
			pair->one++;
			pair->other++;
		}
		CODE(pthread_rwlock_unlock(pair->rwlock), 0);
	}
	return NULL;
}

static void readers_and_writers(void)
{
	int kind, i;

	for (kind = PTHREAD_RWLOCK_PREFER_READER_NP; kind <= PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; kind++) {
		pthread_rwlock_t rwlock;
		struct pair pair = { &rwlock, 0, 0 };
		pthread_t threads[THREADS];

		init(&rwlock, kind, 0);
		for (i = 0; i < THREADS; i++)
			threads[i] = started(read_and_write, &pair);
		for (i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		EXPECT(pair.one == THREADS * TIMES / 4);
		CODE(pthread_rwlock_destroy(&rwlock), 0);
	}
}

static void rwlock_shared_by_processes(void)
{
	pthread_rwlock_t *rwlock = page(MAP_SHARED);
	pid_t child;

	init(rwlock, PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_PROCESS_SHARED);
	CODE(pthread_rwlock_rdlock(rwlock), 0);
	child = fork();
	if (child == 0) {
		int busy = pthread_rwlock_trywrlock(rwlock) == EBUSY;
		int reads = pthread_rwlock_rdlock(rwlock) == 0;
		_exit(busy && reads && pthread_rwlock_unlock(rwlock) == 0 ? 3 : 4);
	}
	EXPECT(exit_status(child) == 3);
	CODE(pthread_rwlock_unlock(rwlock), 0);
	CODE(pthread_rwlock_destroy(rwlock), 0);
	unmap(rwlock);
}

static void rwlock_old_names(void)
{
	int (*make)(pthread_rwlock_t *, const pthread_rwlockattr_t *) = NAMED("__pthread_rwlock_init", pthread_rwlock_init);
	int (*destroy)(pthread_rwlock_t *) = NAMED("__pthread_rwlock_destroy", pthread_rwlock_destroy);
	int (*read)(pthread_rwlock_t *) = NAMED("__pthread_rwlock_rdlock", pthread_rwlock_rdlock);
	int (*tryread)(pthread_rwlock_t *) = NAMED("__pthread_rwlock_tryrdlock", pthread_rwlock_tryrdlock);
	int (*write)(pthread_rwlock_t *) = NAMED("__pthread_rwlock_wrlock", pthread_rwlock_wrlock);
	int (*trywrite)(pthread_rwlock_t *) = NAMED("__pthread_rwlock_trywrlock", pthread_rwlock_trywrlock);
	int (*unlock)(pthread_rwlock_t *) = NAMED("__pthread_rwlock_unlock", pthread_rwlock_unlock);
	pthread_rwlock_t rwlock;

	CODE(make(&rwlock, NULL), 0);
	CODE(write(&rwlock), 0);
	CODE(read(&rwlock), EDEADLK);
	CODE(tryread(&rwlock), EBUSY);
	CODE(trywrite(&rwlock), EBUSY);
	CODE(unlock(&rwlock), 0);
	CODE(read(&rwlock), 0);
	CODE(tryread(&rwlock), 0);
	CODE(trywrite(&rwlock), EBUSY);
	CODE(unlock(&rwlock), 0);
	CODE(unlock(&rwlock), 0);
	CODE(trywrite(&rwlock), 0);
	CODE(unlock(&rwlock), 0);
	CODE(destroy(&rwlock), 0);
}

void rwlock_cases(void)
{
	RUN(rwlock_codes);
	RUN(readers_pass_a_waiting_writer);
	RUN(a_writer_comes_first);
	RUN(threads_come_and_go_while_others_wait);
	RUN(readers_and_writers);
	RUN(rwlock_shared_by_processes);
	RUN(rwlock_old_names);
}
