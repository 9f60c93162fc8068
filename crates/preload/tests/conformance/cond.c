#include "cases.h"

/* Threads that wait for a number to change. */
struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int waiting, ready, woken;
};

static void *wait_for(void *argument)
{
	struct shared *shared = argument;

	CODE(pthread_mutex_lock(&shared->mutex), 0);
	shared->waiting++;
	while (!shared->ready)
		CODE(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
	shared->ready--;
	shared->woken++;
	CODE(pthread_mutex_unlock(&shared->mutex), 0);
	return NULL;
}

/* Returns with the mutex locked: so many have released it, and wait. */
static void lock_when_waiting(struct shared *shared, int threads)
{
	for (;;) {
		CODE(pthread_mutex_lock(&shared->mutex), 0);
		if (shared->waiting == threads)
			return;
		CODE(pthread_mutex_unlock(&shared->mutex), 0);
		let_run();
	}
}

static void wait_until_woken(struct shared *shared, int threads)
{
	for (;;) {
		CODE(pthread_mutex_lock(&shared->mutex), 0);
		int woken = shared->woken;
		CODE(pthread_mutex_unlock(&shared->mutex), 0);
		if (woken >= threads)
			return;
		let_run();
	}
}

static void set_up(struct shared *shared, int kind, int protocol, clockid_t clock)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	CODE(pthread_mutexattr_init(&mutex), 0);
	CODE(pthread_mutexattr_settype(&mutex, kind), 0);
	CODE(pthread_mutexattr_setprotocol(&mutex, protocol), 0);
	CODE(pthread_mutex_init(&shared->mutex, &mutex), 0);
	CODE(pthread_condattr_init(&cond), 0);
	CODE(pthread_condattr_setclock(&cond, clock), 0);
	CODE(pthread_cond_init(&shared->cond, &cond), 0);
	shared->waiting = shared->ready = shared->woken = 0;
}

static void take_down(struct shared *shared)
{
	CODE(pthread_cond_destroy(&shared->cond), 0);
	CODE(pthread_mutex_destroy(&shared->mutex), 0);
}

enum { THREADS = 5 };

/* Signals, with the mutex held and after; then a broadcast. */
static void cond_signals(void)
{
	int kind, protocol, i;

	for (protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		for (kind = PTHREAD_MUTEX_NORMAL; kind <= PTHREAD_MUTEX_ERRORCHECK; kind++) {
			struct shared shared;
			pthread_t threads[THREADS];

			set_up(&shared, kind, protocol, CLOCK_REALTIME);
			CODE(pthread_cond_signal(&shared.cond), 0);
			CODE(pthread_cond_broadcast(&shared.cond), 0);
			for (i = 0; i < THREADS; i++)
				threads[i] = started(wait_for, &shared);
			lock_when_waiting(&shared, THREADS);
			shared.ready = 1;
			CODE(pthread_cond_signal(&shared.cond), 0);
			CODE(pthread_mutex_unlock(&shared.mutex), 0);
			wait_until_woken(&shared, 1);
			CODE(pthread_mutex_destroy(&shared.mutex), EBUSY); /* others wait */
			CODE(pthread_mutex_lock(&shared.mutex), 0);
			shared.ready = 1;
			CODE(pthread_mutex_unlock(&shared.mutex), 0);
			CODE(pthread_cond_signal(&shared.cond), 0);
			wait_until_woken(&shared, 2);
			CODE(pthread_mutex_lock(&shared.mutex), 0);
			EXPECT(shared.woken == 2);
			shared.ready = THREADS;
			CODE(pthread_mutex_unlock(&shared.mutex), 0);
			CODE(pthread_cond_broadcast(&shared.cond), 0);
			for (i = 0; i < THREADS; i++)
				CODE(pthread_join(threads[i], NULL), 0);
			take_down(&shared);
		}
	}
}

/* Two threads take turns; a signal that is lost has them wait for ever. */
static void *take_turns(void *argument)
{
	struct shared *shared = argument;
	int i;

	CODE(pthread_mutex_lock(&shared->mutex), 0);
	int mine = shared->waiting++;
	for (i = 0; i < 2000; i++) {
		while (shared->ready != mine)
			CODE(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
		shared->ready = !mine;
		CODE(pthread_cond_signal(&shared->cond), 0);
	}
	CODE(pthread_mutex_unlock(&shared->mutex), 0);
	return NULL;
}

static void cond_turns(void)
{
	struct shared shared = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0 };
	pthread_t other = started(take_turns, &shared);

	take_turns(&shared);
	pthread_join(other, NULL);
	take_down(&shared);
}

static void cond_deadlines(void)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	int kind, i;

	for (kind = PTHREAD_MUTEX_NORMAL; kind <= PTHREAD_MUTEX_ERRORCHECK; kind++) {
		for (i = 0; i < 4; i++) {
			struct shared shared;
			struct timespec at;

			set_up(&shared, kind, i / 2 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE, clocks[i % 2]);
			CODE(pthread_mutex_lock(&shared.mutex), 0);
			at = in_ms(clocks[i % 2], 5);
			CODE(pthread_cond_timedwait(&shared.cond, &shared.mutex, &at), ETIMEDOUT);
			EXPECT(has_passed(clocks[i % 2], at));
			at = in_ms(clocks[!(i % 2)], 5);
			CODE(pthread_cond_clockwait(&shared.cond, &shared.mutex, clocks[!(i % 2)], &at), ETIMEDOUT);
			EXPECT(has_passed(clocks[!(i % 2)], at));
			CODE(pthread_cond_clockwait(&shared.cond, &shared.mutex, CLOCK_REALTIME, &malformed), EINVAL);
			CODE(pthread_cond_clockwait(&shared.cond, &shared.mutex, CLOCK_MONOTONIC, &negative), EINVAL);
			CODE(pthread_cond_timedwait(&shared.cond, &shared.mutex, &past), ETIMEDOUT);
			CODE(pthread_cond_timedwait(&shared.cond, &shared.mutex, &malformed), EINVAL);
			CODE(pthread_cond_timedwait(&shared.cond, &shared.mutex, &negative), EINVAL);
			CODE(pthread_cond_clockwait(&shared.cond, &shared.mutex, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
			CODE(pthread_mutex_unlock(&shared.mutex), 0);
			take_down(&shared);
		}
	}
}

/* Who has a deadline far away is woken all the same. */
static void *wait_long(void *argument)
{
	struct shared *shared = argument;
	struct timespec at = in_ms(CLOCK_REALTIME, 0);

	at.tv_sec += 1000000;
	CODE(pthread_mutex_lock(&shared->mutex), 0);
	shared->waiting++;
	while (!shared->ready)
		CODE(pthread_cond_timedwait(&shared->cond, &shared->mutex, &at), 0);
	CODE(pthread_mutex_unlock(&shared->mutex), 0);
	return NULL;
}

static void cond_woken_before_the_deadline(void)
{
	struct shared shared;
	pthread_t waiter;

	set_up(&shared, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, CLOCK_REALTIME);
	waiter = started(wait_long, &shared);
	lock_when_waiting(&shared, 1);
	shared.ready = 1;
	CODE(pthread_cond_signal(&shared.cond), 0);
	CODE(pthread_mutex_unlock(&shared.mutex), 0);
	pthread_join(waiter, NULL);
	take_down(&shared);
}

static void cond_not_the_owner(void)
{
	int kind;

	for (kind = PTHREAD_MUTEX_RECURSIVE; kind <= PTHREAD_MUTEX_ERRORCHECK; kind++) {
		struct shared shared;

		set_up(&shared, kind, PTHREAD_PRIO_NONE, CLOCK_REALTIME);
		CODE(pthread_cond_wait(&shared.cond, &shared.mutex), EPERM);
		CODE(pthread_cond_timedwait(&shared.cond, &shared.mutex, &past), EPERM);
		CODE(pthread_cond_clockwait(&shared.cond, &shared.mutex, CLOCK_MONOTONIC, &past), EPERM);
		take_down(&shared);
	}
}

/* The owner of a robust mutex ends after it has woken who waits with that. */
static void *signal_and_leave(void *argument)
{
	struct shared *shared = argument;

	CODE(pthread_mutex_lock(&shared->mutex), 0);
	shared->ready = 1;
	CODE(pthread_cond_signal(&shared->cond), 0);
	return NULL;
}

static void cond_owner_died(void)
{
	struct shared shared = { .cond = PTHREAD_COND_INITIALIZER };
	pthread_mutexattr_t robust;
	pthread_t other;
	int code = 0;

	CODE(pthread_mutexattr_init(&robust), 0);
	CODE(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST), 0);
	CODE(pthread_mutex_init(&shared.mutex, &robust), 0);
	CODE(pthread_mutex_lock(&shared.mutex), 0);
	other = started(signal_and_leave, &shared);
	while (!shared.ready && code == 0)
		code = pthread_cond_wait(&shared.cond, &shared.mutex);
	EXPECT(code == EOWNERDEAD);
	CODE(pthread_mutex_consistent(&shared.mutex), 0);
	CODE(pthread_mutex_unlock(&shared.mutex), 0);
	CODE(pthread_join(other, NULL), 0);
	take_down(&shared);
}

/* Waits with a recursive mutex that it has twice, and so keeps. */
static void *wait_with_two(void *argument)
{
	struct shared *shared = argument;

	CODE(pthread_mutex_lock(&shared->mutex), 0);
	CODE(pthread_mutex_lock(&shared->mutex), 0);
	while (!__atomic_load_n(&shared->ready, __ATOMIC_RELAXED))
		CODE(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
	__atomic_store_n(&shared->woken, 1, __ATOMIC_RELAXED);
	CODE(pthread_mutex_unlock(&shared->mutex), 0);
	CODE(pthread_mutex_unlock(&shared->mutex), 0);
	return NULL;
}

/* It is woken all the same, as is who waits with what it keeps. */
static void cond_wait_that_keeps(void)
{
	struct timespec moment = { 0, 10000000 };
	struct shared shared;
	pthread_t waiter, keeper;

	set_up(&shared, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, CLOCK_REALTIME);
	waiter = started(wait_for, &shared);
	lock_when_waiting(&shared, 1);
	CODE(pthread_mutex_unlock(&shared.mutex), 0);
	keeper = started(wait_with_two, &shared);
	nanosleep(&moment, NULL);
	__atomic_store_n(&shared.ready, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&shared.woken, __ATOMIC_RELAXED)) {
		CODE(pthread_cond_broadcast(&shared.cond), 0);
		nanosleep(&moment, NULL);
	}
	pthread_join(keeper, NULL);
	pthread_join(waiter, NULL);
	take_down(&shared);
}

/* As soon as all waiters are woken, it may be destroyed, and its memory be gone. */
static void gone_after_broadcast(void)
{
	int i, round;

	for (round = 0; round < 100; round++) {
		struct shared *shared = page(MAP_PRIVATE);
		pthread_t threads[2];

		set_up(shared, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, CLOCK_REALTIME);
		for (i = 0; i < 2; i++)
			threads[i] = started(wait_for, shared);
		lock_when_waiting(shared, 2);
		shared->ready = 2;
		CODE(pthread_cond_broadcast(&shared->cond), 0);
		CODE(pthread_cond_destroy(&shared->cond), 0);
		CODE(pthread_mutex_unlock(&shared->mutex), 0);
		for (i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		CODE(pthread_mutex_destroy(&shared->mutex), 0);
		unmap(shared);
	}
}

/* A waiter that was woken frees what it waited at, while who woke it is still there. */
static void *wait_and_unmap(void *argument)
{
	struct shared *shared = argument;

	wait_for(shared);
	CODE(pthread_cond_destroy(&shared->cond), 0);
	CODE(pthread_mutex_destroy(&shared->mutex), 0);
	unmap(shared);
	return NULL;
}

static void gone_after_signal(void)
{
	int round;

	for (round = 0; round < 100; round++) {
		struct shared *shared = page(MAP_PRIVATE);
		pthread_t waiter;

		set_up(shared, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, CLOCK_REALTIME);
		waiter = started(wait_and_unmap, shared);
		lock_when_waiting(shared, 1);
		shared->ready = 1;
		CODE(pthread_cond_signal(&shared->cond), 0);
		CODE(pthread_mutex_unlock(&shared->mutex), 0);
		pthread_join(waiter, NULL);
	}
}

/* Between processes; and what one process alone shares in part. Who signals what it shares
 * need not have the mutex, which may be another process's own. */
static void cond_shared_by_processes(void)
{
	int mutex_shared, cond_shared;

	for (mutex_shared = 0; mutex_shared < 2; mutex_shared++) {
		for (cond_shared = 0; cond_shared < 2; cond_shared++) {
			struct shared *shared = page(MAP_SHARED);
			pthread_mutexattr_t mutex;
			pthread_condattr_t cond;
			pthread_t waiter;
			pid_t child;

			CODE(pthread_mutexattr_init(&mutex), 0);
			CODE(pthread_mutexattr_setpshared(&mutex, mutex_shared), 0);
			CODE(pthread_mutex_init(&shared->mutex, &mutex), 0);
			CODE(pthread_condattr_init(&cond), 0);
			CODE(pthread_condattr_setpshared(&cond, cond_shared), 0);
			CODE(pthread_cond_init(&shared->cond, &cond), 0);
			waiter = started(wait_for, shared);
			lock_when_waiting(shared, 1);
			CODE(pthread_mutex_unlock(&shared->mutex), 0);
			if (cond_shared) {
				child = fork();
				if (child == 0) {
					if (mutex_shared)
						pthread_mutex_lock(&shared->mutex);
					__atomic_store_n(&shared->ready, 1, __ATOMIC_RELAXED);
					pthread_cond_signal(&shared->cond);
					if (mutex_shared)
						pthread_mutex_unlock(&shared->mutex);
					_exit(3);
				}
				EXPECT(exit_status(child) == 3);
			} else {
				CODE(pthread_mutex_lock(&shared->mutex), 0);
				shared->ready = 1;
				CODE(pthread_cond_broadcast(&shared->cond), 0);
				CODE(pthread_mutex_unlock(&shared->mutex), 0);
			}
			pthread_join(waiter, NULL);
			take_down(shared);
			unmap(shared);
		}
	}
}

void cond_cases(void)
{
	RUN(cond_signals);
	RUN(cond_turns);
	RUN(cond_deadlines);
	RUN(cond_woken_before_the_deadline);
	RUN(cond_not_the_owner);
	RUN(cond_owner_died);
	RUN(cond_wait_that_keeps);
	RUN(gone_after_broadcast);
	RUN(gone_after_signal);
	RUN(cond_shared_by_processes);
}
