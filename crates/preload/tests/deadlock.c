/* Uses locks as its argument says: mostly in ways in which they can deadlock, but do not. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t begun, ended;

static __attribute__((noinline)) void take_a_then_b(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&b);
	pthread_mutex_unlock(&b);
	pthread_mutex_unlock(&a);
}

static __attribute__((noinline)) void take_b_then_a(void)
{
	pthread_mutex_lock(&b);
	pthread_mutex_lock(&a);
	pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&b);
}

/* Runs it in a thread of its own, to its end. */
static void alone(void (*part)(void))
{
	pthread_t thread;

	pthread_create(&thread, NULL, (void *(*)(void *))(void *)part, NULL);
	pthread_join(thread, NULL);
}

static void both_orders(void)
{
	alone(take_a_then_b);
	alone(take_b_then_a);
}

static void back_off(void)
{
	struct timespec past = { 1, 0 };

	pthread_mutex_lock(&b);
	if (pthread_mutex_trylock(&a) == 0)
		pthread_mutex_unlock(&a);
	if (pthread_mutex_timedlock(&a, &past) == 0)
		pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&b);
}

static void try(void)
{
	alone(take_a_then_b);
	alone(back_off);
}

static void read_a_then_b(void)
{
	pthread_mutex_lock(&a);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_mutex_unlock(&a);
}

static void read_b_then_a(void)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_mutex_lock(&a);
	pthread_mutex_unlock(&a);
	pthread_rwlock_unlock(&rwlock);
}

static void readers(void)
{
	alone(read_a_then_b);
	alone(read_b_then_a);
}

static void recursive(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t lock;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &attributes);
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&lock);
	pthread_mutex_destroy(&lock);
}

static void reuse(void)
{
	alone(take_a_then_b);
	a = b = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	alone(take_b_then_a);
	pthread_mutex_destroy(&a);
	pthread_mutex_init(&a, NULL);
	alone(take_a_then_b);
}

static void lock_twice(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&a);
}

static void write_what_it_reads(void)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_wrlock(&rwlock);
}

static void lock_and_wait(void)
{
	pthread_mutex_lock(&a);
	sem_post(&begun);
	sem_wait(&ended);
}

static void stranger(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, (void *(*)(void *))(void *)lock_and_wait, NULL);
	sem_wait(&begun);
	pthread_mutex_unlock(&a);
	sem_post(&ended);
	pthread_join(thread, NULL);
}

static void destroy(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_destroy(&a);
}

static void destroy_c11(void)
{
	static mtx_t mutex;

	mtx_init(&mutex, mtx_plain);
	mtx_lock(&mutex);
	mtx_destroy(&mutex);
}

static void lock_and_leave(void)
{
	pthread_mutex_lock(&a);
}

static void leave(void)
{
	alone(lock_and_leave);
}

static void fail(void)
{
	both_orders();
	exit(3);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "both_orders", both_orders },
	{ "try", try },
	{ "readers", readers },
	{ "recursive", recursive },
	{ "reuse", reuse },
	{ "lock_twice", lock_twice },
	{ "write_what_it_reads", write_what_it_reads },
	{ "stranger", stranger },
	{ "destroy", destroy },
	{ "destroy_c11", destroy_c11 },
	{ "leave", leave },
	{ "fail", fail },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			puts("done");
			return 0;
		}
	}
	return 2;
}
