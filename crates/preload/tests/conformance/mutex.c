#include "cases.h"

enum { NORMAL, RECURSIVE, ERRORCHECK, ADAPTIVE };

/* What a thread that does not have the mutex is told. */
static void *trylock(void *mutex)
{
	return (void *)(long)pthread_mutex_trylock(mutex);
}

static void *unlock(void *mutex)
{
	return (void *)(long)pthread_mutex_unlock(mutex);
}

static void *timedlock(void *mutex)
{
	return (void *)(long)pthread_mutex_timedlock(mutex, &past);
}

static int told(void *(*work)(void *), pthread_mutex_t *mutex)
{
	return (int)(long)elsewhere(work, mutex);
}

/* The codes of one kind. */
static void codes(pthread_mutex_t *mutex, int kind, int inherits)
{
	int again = kind == RECURSIVE ? 0 : kind == ERRORCHECK ? EDEADLK : ETIMEDOUT;
	int times = 1;

	CODE(pthread_mutex_lock(mutex), 0);
	CODE(told(trylock, mutex), EBUSY);
	CODE(told(timedlock, mutex), ETIMEDOUT);
	if (kind != ERRORCHECK || !inherits) /* for which glibc has EDEADLK, not POSIX's EBUSY */
		CODE(pthread_mutex_trylock(mutex), kind == RECURSIVE ? 0 : EBUSY);
	CODE(pthread_mutex_timedlock(mutex, &past), again);
	if (kind == RECURSIVE || kind == ERRORCHECK) {
		CODE(pthread_mutex_lock(mutex), again);
		CODE(told(unlock, mutex), EPERM);
	}
	if (kind == RECURSIVE)
		times = 4;
	CODE(pthread_mutex_destroy(mutex), EBUSY);
	CODE(pthread_mutex_consistent(mutex), EINVAL);
	while (times-- > 0) {
		CODE(told(trylock, mutex), EBUSY);
		CODE(pthread_mutex_unlock(mutex), 0);
	}
	if (kind == RECURSIVE || kind == ERRORCHECK)
		CODE(pthread_mutex_unlock(mutex), EPERM);
	CODE(pthread_mutex_trylock(mutex), 0);
	CODE(pthread_mutex_unlock(mutex), 0);
	CODE(pthread_mutex_timedlock(mutex, &past), 0);
	CODE(pthread_mutex_unlock(mutex), 0);
	CODE(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &past), 0);
	CODE(pthread_mutex_unlock(mutex), 0);
	CODE(pthread_mutex_destroy(mutex), 0);
}

static void mutex_static_initialisers(void)
{
	pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

	codes(&normal, NORMAL, 0);
	codes(&recursive, RECURSIVE, 0);
	codes(&errorcheck, ERRORCHECK, 0);
	codes(&adaptive, ADAPTIVE, 0);
}

static void init(pthread_mutex_t *mutex, int kind, int protocol, int shared, int robust)
{
	pthread_mutexattr_t attributes;

	CODE(pthread_mutexattr_init(&attributes), 0);
	CODE(pthread_mutexattr_settype(&attributes, kind), 0);
	CODE(pthread_mutexattr_setprotocol(&attributes, protocol), 0);
	CODE(pthread_mutexattr_setpshared(&attributes, shared), 0);
	CODE(pthread_mutexattr_setrobust(&attributes, robust), 0);
	CODE(pthread_mutex_init(mutex, &attributes), 0);
	CODE(pthread_mutexattr_destroy(&attributes), 0);
}

static void mutex_attributes(void)
{
	pthread_mutex_t mutex;
	int kind;

	CODE(pthread_mutex_init(&mutex, NULL), 0);
	codes(&mutex, NORMAL, 0);
	for (kind = NORMAL; kind <= ADAPTIVE; kind++) {
		init(&mutex, kind, PTHREAD_PRIO_NONE, 0, 0);
		codes(&mutex, kind, 0);
		init(&mutex, kind, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, 0);
		codes(&mutex, kind, 0);
	}
	for (kind = NORMAL; kind <= ERRORCHECK; kind++) {
		init(&mutex, kind, PTHREAD_PRIO_INHERIT, 0, 0);
		codes(&mutex, kind, 1);
		init(&mutex, kind, PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_SHARED, 0);
		codes(&mutex, kind, 1);
	}
}

/* POSIX leaves it open, but it is told. */
static void mutex_destroyed(void)
{
	int kind, protocol;

	for (protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		for (kind = NORMAL; kind <= ERRORCHECK; kind++) {
			pthread_mutex_t mutex;

			init(&mutex, kind, protocol, 0, 0);
			CODE(pthread_mutex_destroy(&mutex), 0);
			CODE(pthread_mutex_lock(&mutex), EINVAL);
			CODE(pthread_mutex_trylock(&mutex), EINVAL);
			CODE(pthread_mutex_timedlock(&mutex, &past), EINVAL);
			CODE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past), EINVAL);
			CODE(pthread_mutex_unlock(&mutex), EINVAL);
		}
	}
}

/* A deadline that is none matters only to who would wait. */
static void mutex_deadlines(void)
{
	int protocol;

	for (protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		pthread_mutex_t mutex;

		init(&mutex, ERRORCHECK, protocol, 0, 0);
		CODE(pthread_mutex_timedlock(&mutex, &malformed), 0);
		CODE(pthread_mutex_timedlock(&mutex, &malformed), EDEADLK);
		CODE(pthread_mutex_unlock(&mutex), 0);
		CODE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &negative), 0);
		CODE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &negative), EDEADLK);
		CODE(pthread_mutex_unlock(&mutex), 0);
		CODE(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
		CODE(pthread_mutex_destroy(&mutex), 0);
		init(&mutex, RECURSIVE, protocol, 0, 0);
		CODE(pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &malformed), 0);
		CODE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &malformed), 0);
		CODE(pthread_mutex_clocklock(&mutex, CLOCK_THREAD_CPUTIME_ID, &past), EINVAL);
		CODE(pthread_mutex_unlock(&mutex), 0);
		CODE(pthread_mutex_unlock(&mutex), 0);
		CODE(pthread_mutex_unlock(&mutex), EPERM);
		CODE(pthread_mutex_destroy(&mutex), 0);
	}
}

static void *time_out(void *held)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	int i;

	for (i = 0; i < 2; i++) {
		struct timespec at = in_ms(clocks[i], 5);

		CODE(pthread_mutex_clocklock(held, clocks[i], &at), ETIMEDOUT);
		EXPECT(has_passed(clocks[i], at));
		CODE(pthread_mutex_clocklock(held, clocks[i], &past), ETIMEDOUT);
		CODE(pthread_mutex_clocklock(held, clocks[i], &malformed), EINVAL);
		CODE(pthread_mutex_clocklock(held, clocks[i], &negative), EINVAL);
	}
	CODE(pthread_mutex_clocklock(held, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
	CODE(pthread_mutex_timedlock(held, &malformed), EINVAL);
	CODE(pthread_mutex_timedlock(held, &negative), EINVAL);
	return NULL;
}

static void mutex_timeouts(void)
{
	int kind, protocol;

	for (protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		for (kind = NORMAL; kind <= ADAPTIVE; kind++) {
			pthread_mutex_t held;

			init(&held, kind, protocol, 0, 0);
			CODE(pthread_mutex_lock(&held), 0);
			elsewhere(time_out, &held);
			CODE(pthread_mutex_unlock(&held), 0);
			CODE(pthread_mutex_destroy(&held), 0);
		}
	}
}

/* Who waits with others' mutexes behind it asks the kernel what it has, and is told no;
 * errno stays, as CODE checks. */
static void *wait_behind_others(void *waited_for)
{
	pthread_mutex_t others[3];
	struct timespec at;
	int i, times;

	for (i = 0; i < 3; i++) {
		init(&others[i], NORMAL, PTHREAD_PRIO_INHERIT, 0, 0);
		for (times = 0; times < 1000; times++) {
			pthread_mutex_lock(&others[i]);
			pthread_mutex_unlock(&others[i]);
		}
	}
	at = in_ms(CLOCK_REALTIME, 5);
	CODE(pthread_mutex_timedlock(waited_for, &at), ETIMEDOUT);
	for (i = 0; i < 3; i++)
		CODE(pthread_mutex_destroy(&others[i]), 0);
	return NULL;
}

static void mutex_leaves_errno(void)
{
	pthread_mutex_t mutex;

	init(&mutex, NORMAL, PTHREAD_PRIO_INHERIT, 0, 0);
	CODE(pthread_mutex_lock(&mutex), 0);
	elsewhere(wait_behind_others, &mutex);
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(pthread_mutex_destroy(&mutex), 0);
}

/* POSIX leaves open what comes of it, but programs do it: one thread locks, another
 * unlocks; and one waits for itself until another unlocks for it, or gives that up. */
static void unlocked_by_another(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec at = in_ms(CLOCK_REALTIME, 1);
	int i;

	for (i = 0; i < 100; i++) {
		CODE(pthread_mutex_lock(&mutex), 0);
		if (i % 10 == 0)
			CODE(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
		CODE(told(unlock, &mutex), 0);
	}
	CODE(pthread_mutex_lock(&mutex), 0);
	pthread_t other = started(unlock, &mutex);
	CODE(pthread_mutex_lock(&mutex), 0);
	pthread_join(other, NULL);
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(pthread_mutex_destroy(&mutex), 0);
}

/* Two mutexes as two semaphores, each locked by who waits and unlocked by who wakes. */
struct semaphores {
	pthread_mutex_t ball[2];
	int turns;
};

enum { TURNS = 2000 };

static void *play(void *semaphores)
{
	struct semaphores *shared = semaphores;
	int i;

	for (i = 0; i < TURNS; i++) {
		CODE(pthread_mutex_lock(&shared->ball[1]), 0);
		shared->turns++;
		CODE(pthread_mutex_unlock(&shared->ball[0]), 0);
	}
	return NULL;
}

static void mutex_as_semaphore(void)
{
	struct semaphores shared = { { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER }, 0 };
	pthread_t other;
	int i;

	CODE(pthread_mutex_lock(&shared.ball[0]), 0);
	CODE(pthread_mutex_lock(&shared.ball[1]), 0);
	other = started(play, &shared);
	for (i = 1; i <= TURNS; i++) {
		struct timespec at = in_ms(CLOCK_REALTIME, 600000);

		CODE(pthread_mutex_unlock(&shared.ball[1]), 0);
		if (i % 2)
			CODE(pthread_mutex_lock(&shared.ball[0]), 0);
		else
			CODE(pthread_mutex_timedlock(&shared.ball[0], &at), 0);
		EXPECT(shared.turns == i);
	}
	pthread_join(other, NULL);
}

struct counted {
	pthread_mutex_t *mutex;
	long count;
};

enum { THREADS = 4, TIMES = 5000 };

static void *count(void *counted)
{
	struct counted *shared = counted;
	int i;

	for (i = 0; i < TIMES; i++) {
		CODE(pthread_mutex_lock(shared->mutex), 0);
		shared->count++;
		CODE(pthread_mutex_unlock(shared->mutex), 0);
	}
	return NULL;
}

static void mutex_exclusion(void)
{
	int kind, protocol, i;

	for (protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		for (kind = NORMAL; kind <= ERRORCHECK; kind++) {
			pthread_mutex_t mutex;
			struct counted counted = { &mutex, 0 };
			pthread_t threads[THREADS];

			init(&mutex, kind, protocol, 0, 0);
			for (i = 0; i < THREADS; i++)
				threads[i] = started(count, &counted);
			for (i = 0; i < THREADS; i++)
				pthread_join(threads[i], NULL);
			EXPECT(counted.count == THREADS * TIMES);
			CODE(pthread_mutex_destroy(&mutex), 0);
		}
	}
}

/* Who finds itself the last user unmaps the mutex, while the other is in its unlock. */
struct mapped {
	pthread_mutex_t mutex;
	int users;
};

static void *use(void *mapped)
{
	struct mapped *shared = mapped;
	int last;

	pthread_mutex_lock(&shared->mutex);
	last = --shared->users == 0;
	pthread_mutex_unlock(&shared->mutex);
	if (last) {
		pthread_mutex_destroy(&shared->mutex);
		unmap(shared);
	}
	return NULL;
}

static void gone_after_unlock(void)
{
	int i;

	for (i = 0; i < 300; i++) {
		struct mapped *shared = page(MAP_PRIVATE);
		int protocol = i % 2 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE;

		init(&shared->mutex, NORMAL, protocol, 0, 0);
		shared->users = 2;
		pthread_t other = started(use, shared);
		use(shared);
		pthread_join(other, NULL);
	}
}

static void *lock(void *mutex)
{
	return (void *)(long)pthread_mutex_lock(mutex);
}

static void mutex_robust(void)
{
	pthread_mutex_t mutex;

	init(&mutex, NORMAL, PTHREAD_PRIO_NONE, 0, PTHREAD_MUTEX_ROBUST);
	CODE(told(lock, &mutex), 0);
	CODE(pthread_mutex_lock(&mutex), EOWNERDEAD);
	CODE(told(trylock, &mutex), EBUSY);
	CODE(pthread_mutex_consistent(&mutex), 0);
	CODE(pthread_mutex_consistent(&mutex), EINVAL);
	CODE(told(unlock, &mutex), EPERM);
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(pthread_mutex_consistent(&mutex), EINVAL);
	CODE(told(lock, &mutex), 0);
	CODE(pthread_mutex_timedlock(&mutex, &past), EOWNERDEAD);
	CODE(pthread_mutex_consistent(&mutex), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(told(lock, &mutex), 0);
	CODE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past), EOWNERDEAD);
	CODE(pthread_mutex_consistent(&mutex), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(told(lock, &mutex), 0);
	CODE(pthread_mutex_trylock(&mutex), EOWNERDEAD);
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
	CODE(pthread_mutex_trylock(&mutex), ENOTRECOVERABLE);
	CODE(pthread_mutex_destroy(&mutex), 0);
}

static void mutex_ceiling(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t mutex;
	int protocol, ceiling = 0;

	CODE(pthread_mutexattr_init(&attributes), 0);
	CODE(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT), 0);
	CODE(pthread_mutexattr_setprioceiling(&attributes, 7), 0);
	CODE(pthread_mutex_init(&mutex, &attributes), 0);
	CODE(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
	EXPECT(ceiling == 7);
	CODE(pthread_mutex_setprioceiling(&mutex, 9, &ceiling), 0);
	EXPECT(ceiling == 7);
	CODE(pthread_mutex_setprioceiling(&mutex, 1000, &ceiling), EINVAL);
	CODE(pthread_mutex_setprioceiling(&mutex, -1, &ceiling), EINVAL);
	CODE(pthread_mutex_setprioceiling(&mutex, 8, &ceiling), 0);
	CODE(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
	EXPECT(ceiling == 8);
	CODE(pthread_mutex_consistent(&mutex), EINVAL);
	CODE(pthread_mutex_destroy(&mutex), 0);
	for (protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		init(&mutex, NORMAL, protocol, 0, 0);
		CODE(pthread_mutex_getprioceiling(&mutex, &ceiling), EINVAL);
		CODE(pthread_mutex_setprioceiling(&mutex, 8, &ceiling), EINVAL);
		EXPECT(ceiling == 8);
		CODE(pthread_mutex_destroy(&mutex), 0);
	}
}

static void mutex_old_names(void)
{
	int (*lock)(pthread_mutex_t *) = NAMED("__pthread_mutex_lock", pthread_mutex_lock);
	int (*trylock)(pthread_mutex_t *) = NAMED("__pthread_mutex_trylock", pthread_mutex_trylock);
	int (*unlock)(pthread_mutex_t *) = NAMED("__pthread_mutex_unlock", pthread_mutex_unlock);
	int (*make)(pthread_mutex_t *, const pthread_mutexattr_t *) = NAMED("__pthread_mutex_init", pthread_mutex_init);
	int (*destroy)(pthread_mutex_t *) = NAMED("__pthread_mutex_destroy", pthread_mutex_destroy);
	int (*consistent)(pthread_mutex_t *) = NAMED("pthread_mutex_consistent_np", pthread_mutex_consistent);
	pthread_mutexattr_t attributes;
	pthread_mutex_t mutex;

	CODE(pthread_mutexattr_init(&attributes), 0);
	CODE(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK), 0);
	CODE(make(&mutex, &attributes), 0);
	CODE(lock(&mutex), 0);
	CODE(lock(&mutex), EDEADLK);
	CODE(trylock(&mutex), EBUSY);
	CODE(consistent(&mutex), EINVAL);
	CODE(unlock(&mutex), 0);
	CODE(unlock(&mutex), EPERM);
	CODE(destroy(&mutex), 0);
	CODE(pthread_mutexattr_destroy(&attributes), 0);
}

static void mutex_shared_by_processes(void)
{
	pthread_mutex_t *mutex = page(MAP_SHARED);
	pid_t child;

	init(mutex, ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST);
	CODE(pthread_mutex_lock(mutex), 0);
	child = fork();
	if (child == 0) {
		int busy = pthread_mutex_trylock(mutex) == EBUSY;
		_exit(busy && pthread_mutex_unlock(mutex) == EPERM ? 3 : 4);
	}
	EXPECT(exit_status(child) == 3);
	CODE(pthread_mutex_unlock(mutex), 0);
	child = fork();
	if (child == 0)
		_exit(pthread_mutex_lock(mutex) == 0 ? 3 : 4);
	EXPECT(exit_status(child) == 3);
	CODE(pthread_mutex_lock(mutex), EOWNERDEAD);
	CODE(pthread_mutex_consistent(mutex), 0);
	CODE(pthread_mutex_unlock(mutex), 0);
	CODE(pthread_mutex_destroy(mutex), 0);
	unmap(mutex);
}

void mutex_cases(void)
{
	RUN(mutex_static_initialisers);
	RUN(mutex_attributes);
	RUN(mutex_destroyed);
	RUN(mutex_deadlines);
	RUN(mutex_timeouts);
	RUN(mutex_leaves_errno);
	RUN(unlocked_by_another);
	RUN(mutex_as_semaphore);
	RUN(mutex_exclusion);
	RUN(gone_after_unlock);
	RUN(mutex_robust);
	RUN(mutex_ceiling);
	RUN(mutex_old_names);
	RUN(mutex_shared_by_processes);
}
