#include "cases.h"

/* A program takes its locks before it forks, and releases them in both processes. Not
 * those that know their owner's thread: glibc's child is not the owner. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ready, stop, atfork;

static void lock_all(void)
{
	CODE(pthread_mutex_lock(&mutex), 0);
	CODE(pthread_mutex_lock(&adaptive), 0);
	CODE(pthread_rwlock_rdlock(&rwlock), 0);
}

static void unlock_all(void)
{
	CODE(pthread_rwlock_unlock(&rwlock), 0);
	CODE(pthread_mutex_unlock(&adaptive), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
}

static void prepare(void)
{
	if (atfork)
		lock_all();
}

static void resume(void)
{
	if (atfork)
		unlock_all();
}

static void *lock_and_unlock(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		lock_all();
		unlock_all();
	}
	return NULL;
}

static void *signal_ready(void *unused)
{
	(void)unused;
	lock_all();
	ready = 1;
	CODE(pthread_cond_signal(&cond), 0);
	unlock_all();
	return NULL;
}

/* The child has locks as good as new, threads, and a condition variable. */
static void child(void)
{
	pthread_t thread;

	lock_all();
	unlock_all();
	CODE(pthread_rwlock_wrlock(&rwlock), 0);
	CODE(pthread_rwlock_unlock(&rwlock), 0);
	CODE(pthread_mutex_lock(&errorcheck), 0);
	CODE(pthread_mutex_lock(&errorcheck), EDEADLK);
	CODE(pthread_mutex_unlock(&errorcheck), 0);
	CODE(pthread_mutex_lock(&mutex), 0);
	ready = 0;
	thread = started(signal_ready, NULL);
	while (!ready)
		CODE(pthread_cond_wait(&cond, &mutex), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	pthread_join(thread, NULL);
}

static void locked_across_fork(void)
{
	pthread_t threads[2];
	int i;

	CODE(pthread_atfork(prepare, resume, resume), 0);
	atfork = 1;
	for (i = 0; i < 2; i++)
		threads[i] = started(lock_and_unlock, NULL);
	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			RUN(child);
			_exit(3);
		}
		EXPECT(exit_status(pid) == 3);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	atfork = 0;
	lock_all();
	unlock_all();
}

static void *lock_twice(void *unused)
{
	(void)unused;
	CODE(pthread_mutex_lock(&mutex), 0);
	__atomic_store_n(&ready, 1, __ATOMIC_RELAXED);
	CODE(pthread_mutex_lock(&mutex), 0); /* when another unlocks it */
	CODE(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

/* In a child, whose owner is gone, a mutex that this wants back can be unlocked and had. */
static void owner_waits_across_fork(void)
{
	pthread_t thread;
	pid_t pid;

	ready = 0;
	thread = started(lock_twice, NULL);
	while (!__atomic_load_n(&ready, __ATOMIC_RELAXED))
		let_run();
	usleep(10000); /* it sleeps by now, or is about to */
	pid = fork();
	if (pid == 0) {
		alarm(30);
		CODE(pthread_mutex_unlock(&mutex), 0);
		CODE(pthread_mutex_lock(&mutex), 0);
		CODE(pthread_mutex_unlock(&mutex), 0);
		_exit(3);
	}
	EXPECT(exit_status(pid) == 3);
	CODE(pthread_mutex_unlock(&mutex), 0);
	pthread_join(thread, NULL);
}

void fork_cases(void)
{
	RUN(owner_waits_across_fork);
	RUN(locked_across_fork);
}
