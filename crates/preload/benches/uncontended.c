/* What a lock and unlock costs that nobody else wants, in nanoseconds of the thread's CPU:
 * the median of many short runs. Run it plain and preloaded, in turns:
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

enum { RUNS = 501, TIMES = 4096, MANY = 64, WORK = 20, MICROSECOND = 950 };

static pthread_mutex_t mutexes[MANY];
static pthread_rwlock_t rwlock;
static volatile unsigned data;

static double cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void one(int i)
{
	(void)i;
	pthread_mutex_lock(&mutexes[0]);
	data++;
	pthread_mutex_unlock(&mutexes[0]);
}

/* In registers: how soon a processor reads what it has just written depends on what was
 * between the two, by more than a lock takes. */
static void work(int steps)
{
	unsigned long step = steps;

	for (int k = 0; k < steps; k++) {
		step = step * 7 + 1;
		__asm__ volatile("" : "+r"(step));
	}
}

static void with_work_outside(int i)
{
	one(i);
	work(WORK);
}

/* About a million times a second. */
static void with_a_microsecond_outside(int i)
{
	one(i);
	work(MICROSECOND);
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

static void measure(const char *name, void (*use)(int))
{
	static double runs[RUNS];

	for (int run = 0; run < RUNS; run++) {
		double began = cpu_ns();
		for (int i = 0; i < TIMES; i++)
			use(i);
		runs[run] = (cpu_ns() - began) / TIMES;
	}
	qsort(runs, RUNS, sizeof *runs, compare);
	printf("%-24s %6.1f\n", name, runs[RUNS / 2]);
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
	measure_kind("normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, one);
	measure_kind("normal, work outside", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, with_work_outside);
	measure_kind("normal, 1 us outside", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, with_a_microsecond_outside);
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
