#include "cases.h"
#include <threads.h>

/* Waiters that are cancelled: their handlers run with the mutex locked. */

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, ready, took, cleaned;

static void clean(void *unused)
{
	(void)unused;
	CODE(pthread_mutex_lock(&mutex), EDEADLK);
	cleaned++;
	waiting--;
	CODE(pthread_mutex_unlock(&mutex), 0);
}

/* How to wait: for ever, or until a moment far away. */
enum { FOREVER, TIMED, BY_CLOCK, C11, C11_TIMED, WAYS };

static int wait_by(long way)
{
	struct timespec at = in_ms(way == BY_CLOCK ? CLOCK_MONOTONIC : CLOCK_REALTIME, 0);

	at.tv_sec += 1000000;
	switch (way) {
	case TIMED:
		return pthread_cond_timedwait(&cond, &mutex, &at);
	case BY_CLOCK:
		return pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at);
	case C11: /* which are made of the others, as their objects are */
		return cnd_wait((cnd_t *)&cond, (mtx_t *)&mutex);
	case C11_TIMED:
		return cnd_timedwait((cnd_t *)&cond, (mtx_t *)&mutex, &at);
	default:
		return pthread_cond_wait(&cond, &mutex);
	}
}

/* Takes one of what is ready. */
static void *take(void *way)
{
	CODE(pthread_mutex_lock(&mutex), 0);
	waiting++;
	pthread_cleanup_push(clean, NULL);
	while (!ready)
		CODE(wait_by((long)way), 0);
	ready--;
	took++;
	waiting--;
	pthread_cleanup_pop(0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

static void wait_for(int *number, int least)
{
	for (;;) {
		CODE(pthread_mutex_lock(&mutex), 0);
		int enough = *number >= least;
		CODE(pthread_mutex_unlock(&mutex), 0);
		if (enough)
			return;
		let_run();
	}
}

static int was_cancelled(pthread_t thread)
{
	void *result = NULL;

	CODE(pthread_join(thread, &result), 0);
	return result == PTHREAD_CANCELED;
}

static void cancelled_while_it_waits(void)
{
	long way;

	for (way = FOREVER; way < WAYS; way++) {
		pthread_t thread;

		cleaned = 0;
		thread = started(take, (void *)way);
		wait_for(&waiting, 1);
		CODE(pthread_cancel(thread), 0);
		EXPECT(was_cancelled(thread));
		EXPECT(cleaned == 1);
		CODE(pthread_mutex_lock(&mutex), 0);
		CODE(pthread_mutex_unlock(&mutex), 0);
	}
}

static void cancelled_where_processes_may_signal(void)
{
	pthread_condattr_t attributes;

	CODE(pthread_condattr_init(&attributes), 0);
	CODE(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
	CODE(pthread_cond_init(&cond, &attributes), 0);
	cancelled_while_it_waits();
	CODE(pthread_cond_destroy(&cond), 0);
	CODE(pthread_cond_init(&cond, NULL), 0);
}

static void cancelled_with_inheritance(void)
{
	pthread_mutexattr_t attributes;

	CODE(pthread_mutexattr_init(&attributes), 0);
	CODE(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK), 0);
	CODE(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), 0);
	CODE(pthread_mutex_destroy(&mutex), 0);
	CODE(pthread_mutex_init(&mutex, &attributes), 0);
	cancelled_while_it_waits();
	CODE(pthread_mutex_destroy(&mutex), 0);
	CODE(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_NONE), 0);
	CODE(pthread_mutex_init(&mutex, &attributes), 0);
}

/* To wait for a mutex or an rwlock is no cancellation point: it is taken first. */
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *take_all(void *unused)
{
	CODE(pthread_mutex_lock(&mutex), 0);
	took++;
	CODE(pthread_mutex_unlock(&mutex), 0);
	CODE(pthread_rwlock_wrlock(&rwlock), 0);
	took++;
	CODE(pthread_rwlock_unlock(&rwlock), 0);
	pthread_testcancel();
	return unused;
}

static void not_cancelled_by_a_lock(void)
{
	pthread_t thread;

	took = 0;
	CODE(pthread_rwlock_rdlock(&rwlock), 0);
	CODE(pthread_mutex_lock(&mutex), 0);
	thread = started(take_all, NULL);
	let_run();
	CODE(pthread_cancel(thread), 0);
	let_run();
	CODE(pthread_mutex_unlock(&mutex), 0);
	let_run();
	CODE(pthread_rwlock_unlock(&rwlock), 0);
	EXPECT(was_cancelled(thread));
	EXPECT(took == 2);
}

/* It wakes while another has the mutex, and cannot go on before that unlocks. */
static void cancelled_with_the_mutex_locked(void)
{
	pthread_t thread = started(take, NULL);
	int i;

	wait_for(&waiting, 1);
	CODE(pthread_mutex_lock(&mutex), 0);
	cleaned = 0;
	CODE(pthread_cancel(thread), 0);
	for (i = 0; i < 10; i++)
		let_run();
	EXPECT(cleaned == 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	EXPECT(was_cancelled(thread));
	EXPECT(cleaned == 1);
}

static void *take_cancelled(void *unused)
{
	CODE(pthread_cancel(pthread_self()), 0);
	return take(unused);
}

static void cancelled_before_it_waits(void)
{
	pthread_t thread;

	cleaned = 0;
	thread = started(take_cancelled, NULL);
	EXPECT(was_cancelled(thread));
	EXPECT(cleaned == 1);
}

static void *take_undisturbed(void *unused)
{
	int old;

	CODE(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	take(unused);
	CODE(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	pthread_testcancel();
	return NULL;
}

static void not_cancelled_where_it_may_not(void)
{
	pthread_t thread;

	cleaned = took = 0;
	thread = started(take_undisturbed, NULL);
	wait_for(&waiting, 1);
	CODE(pthread_cancel(thread), 0);
	let_run();
	CODE(pthread_mutex_lock(&mutex), 0);
	EXPECT(took == 0);
	ready = 1;
	CODE(pthread_cond_signal(&cond), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	EXPECT(was_cancelled(thread));
	EXPECT(took == 1 && cleaned == 0);
}

/* One of two waiters is cancelled, and one signal given: the other gets it, if the first
 * is cancelled indeed. */
static void no_signal_is_lost(void)
{
	int round;

	for (round = 0; round < 200; round++) {
		pthread_t threads[2];
		int cancelled;

		took = 0;
		threads[0] = started(take, NULL);
		threads[1] = started(take, NULL);
		wait_for(&waiting, 2);
		CODE(pthread_mutex_lock(&mutex), 0);
		ready = 1;
		if (round % 2) {
			CODE(pthread_cancel(threads[0]), 0);
			CODE(pthread_cond_signal(&cond), 0);
		} else {
			CODE(pthread_cond_signal(&cond), 0);
			CODE(pthread_cancel(threads[0]), 0);
		}
		CODE(pthread_mutex_unlock(&mutex), 0);
		wait_for(&took, 1);
		cancelled = was_cancelled(threads[0]);
		if (!cancelled) {
			CODE(pthread_mutex_lock(&mutex), 0);
			ready = 1;
			CODE(pthread_cond_signal(&cond), 0);
			CODE(pthread_mutex_unlock(&mutex), 0);
		}
		CODE(pthread_join(threads[1], NULL), 0);
		EXPECT(took == (cancelled ? 1 : 2));
		EXPECT(ready == 0 && waiting == 0);
	}
}

void cancel_cases(void)
{
	RUN(cancelled_while_it_waits);
	RUN(cancelled_where_processes_may_signal);
	RUN(cancelled_with_inheritance);
	RUN(not_cancelled_by_a_lock);
	RUN(cancelled_with_the_mutex_locked);
	RUN(cancelled_before_it_waits);
	RUN(not_cancelled_where_it_may_not);
	RUN(no_signal_is_lost);
}
