/* What a lock and unlock costs that nobody else wants, in nanoseconds of the thread's CPU, by how
 * much the thread computes between two: what a loop takes with the lock, less what it takes
 * without, in turns, the median of many short runs. Run it plain and preloaded, in turns:
 *
 *	cc -O2 -pthread crates/preload/benches/uncontended.c -o uncontended
 *	for i in 1 2 3; do ./uncontended; lockyard run ./uncontended; done
 *
 * And with a profile: lockyard run --stats ./uncontended 2>/dev/null
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 201, TIMES = 1024, MANY = 64, LENGTHS = 5 };

/* Multiplications between two locks, of about 0.8 ns each. */
static const int lengths[LENGTHS] = { 0, 30, 100, 300, 1000 };

static pthread_mutex_t mutexes[MANY];
static pthread_rwlock_t rwlock;
static volatile unsigned data;

static double cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void no_lock(int i)
{
	(void)i;
	data++;
}

static void one(int i)
{
	(void)i;
	pthread_mutex_lock(&mutexes[0]);
	data++;
	pthread_mutex_unlock(&mutexes[0]);
}

static void many_in_turn(int i)
{
	pthread_mutex_lock(&mutexes[i % MANY]);
	data++;
	pthread_mutex_unlock(&mutexes[i % MANY]);
}

static void read_lock(int i)
{
	(void)i;
	pthread_rwlock_rdlock(&rwlock);
	data++;
	pthread_rwlock_unlock(&rwlock);
}

static void write_lock(int i)
{
	(void)i;
	pthread_rwlock_wrlock(&rwlock);
	data++;
	pthread_rwlock_unlock(&rwlock);
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;
	return difference < 0 ? -1 : difference > 0;
}

/* In registers: how soon a processor reads what it has just written depends on what was
 * between the two, by more than a lock takes. */
static double run(void (*with)(int), int length)
{
	void (*volatile use)(int) = with; /* called, and not inlined */
	double began = cpu_ns();

	for (int i = 0; i < TIMES; i++) {
		unsigned long step = i;

		use(i);
		for (int k = 0; k < length; k++) {
			step = step * 7 + 1;
			__asm__ volatile("" : "+r"(step));
		}
	}
	return (cpu_ns() - began) / TIMES;
}

static void measure(const char *name, void (*use)(int))
{
	static double costs[RUNS];

	printf("%-24s", name);
	for (int i = 0; i < LENGTHS; i++) {
		for (int k = 0; k < RUNS; k++) {
			costs[k] = run(use, lengths[i]);
			costs[k] -= run(no_lock, lengths[i]);
		}
		qsort(costs, RUNS, sizeof *costs, compare);
		printf(" %7.1f", costs[RUNS / 2]);
	}
	printf("\n");
}

static void measure_kind(const char *name, int kind, int protocol, void (*use)(int))
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, kind);
	pthread_mutexattr_setprotocol(&attributes, protocol);
	for (int i = 0; i < MANY; i++)
		pthread_mutex_init(&mutexes[i], &attributes);
	measure(name, use);
	for (int i = 0; i < MANY; i++)
		pthread_mutex_destroy(&mutexes[i]);
}

static void *stay(void *end)
{
	pthread_mutex_lock(end);
	pthread_mutex_unlock(end);
	return NULL;
}

int main(void)
{
	static pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
	pthread_t other;

	/* With one thread alone the C library leaves atomic instructions out. */
	pthread_mutex_lock(&end);
	pthread_create(&other, NULL, stay, &end);
	/* A process is slower at first, for some tenths of a second. */
	for (int i = 0; i < RUNS; i++)
		for (int k = 0; k < LENGTHS; k++)
			run(one, lengths[k]);
	printf("%-24s", "computing between, us");
	for (int i = 0; i < LENGTHS; i++)
		printf(" %7.2f", run(no_lock, lengths[i]) / 1000);
	printf("\n");
	measure_kind("normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, one);
	measure_kind("normal, 64 in turn", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, many_in_turn);
	measure_kind("recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, one);
	measure_kind("errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, one);
	measure_kind("priority inheritance", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, one);
	measure("rwlock, read", read_lock);
	measure("rwlock, write", write_lock);
	pthread_mutex_unlock(&end);
	pthread_join(other, NULL);
	return 0;
}
