/* How long a broadcast takes that is made with the mutex held, or right after it was unlocked:
 * from the lock before it until the last of those that waited has had the mutex. They hold it for
 * a while each. Run it plain and preloaded, in turns:
 *
 *	cc -O2 -pthread crates/preload/benches/broadcast.c -o broadcast
 *	for i in 1 2 3; do ./broadcast; lockyard run ./broadcast; done
 *	for i in 1 2 3; do ./broadcast free; lockyard run ./broadcast free; done
 *
 * It prints JSON: microseconds of a broadcast, the median and the 90th percentile, and
 * microseconds of CPU time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ROUNDS = 200, SETTLE_US = 1000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next_round = PTHREAD_COND_INITIALIZER;
static pthread_cond_t all_wait = PTHREAD_COND_INITIALIZER;
static pthread_cond_t all_done = PTHREAD_COND_INITIALIZER;
static int waiters, round_now, waiting, done, mutex_is_free;
static double section_us, began, took[ROUNDS];

static double us(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void work(double length)
{
	double begin = us(CLOCK_MONOTONIC);
	while (length > 0 && us(CLOCK_MONOTONIC) - begin < length)
		;
}

static void *waiter(void *arg)
{
	(void)arg;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&mutex);
		if (++waiting == waiters)
			pthread_cond_signal(&all_wait);
		while (round_now <= round)
			pthread_cond_wait(&next_round, &mutex);
		work(section_us);
		if (++done == waiters) {
			took[round] = us(CLOCK_MONOTONIC) - began;
			pthread_cond_signal(&all_done);
		}
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(int count, double section)
{
	pthread_t threads[MOST];
	double cpu;

	waiters = count;
	section_us = section;
	round_now = waiting = done = 0;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, waiter, NULL))
			exit(1);
	cpu = us(CLOCK_PROCESS_CPUTIME_ID);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&mutex);
		while (waiting < count)
			pthread_cond_wait(&all_wait, &mutex);
		waiting = 0;
		pthread_mutex_unlock(&mutex);
		usleep(SETTLE_US);
		pthread_mutex_lock(&mutex);
		done = 0;
		began = us(CLOCK_MONOTONIC);
		round_now = round + 1;
		if (mutex_is_free)
			pthread_mutex_unlock(&mutex);
		pthread_cond_broadcast(&next_round);
		if (mutex_is_free)
			pthread_mutex_lock(&mutex);
		while (done < count)
			pthread_cond_wait(&all_done, &mutex);
		pthread_mutex_unlock(&mutex);
	}
	cpu = us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	qsort(took, ROUNDS, sizeof took[0], by_size);
	printf("{\"mutex\":\"%s\",\"waiters\":%d,\"section_us\":%.0f,\"us_p50\":%.1f,\"us_p90\":%.1f,\"cpu_us\":%.1f}\n",
	       mutex_is_free ? "free" : "held", count, section, took[ROUNDS / 2],
	       took[ROUNDS * 9 / 10], cpu / ROUNDS);
}

int main(int argc, char **argv)
{
	static const int counts[] = { 2, 4, 8, 16, 64 };
	static const double sections[] = { 0, 3, 30 };

	mutex_is_free = argc > 1 && strcmp(argv[1], "free") == 0;
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 3; j++)
			measure(counts[i], sections[j]);
	return 0;
}
