/* Threads that read behind rwlocks, and seldom write. Run it plain and preloaded, in turns:
 *
 *	cc -O2 -pthread crates/preload/benches/readers.c -o readers
 *	for i in 1 2 3; do
 *		./readers; lockyard run -- ./readers; lockyard run --rwlock percpu -- ./readers
 *	done
 *
 * It prints JSON, a line for each number of threads, number of locks, of which a thread takes any
 * each time, and writes in a thousand takings: millions of takings a second by all threads.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOCKS = 2000, THREADS = 4 };

struct locked {
	_Alignas(128) pthread_rwlock_t lock;
	volatile long value;
};

static struct locked *locked;
static unsigned locks, writes;
static atomic_bool stop;
static struct {
	_Alignas(128) long taken;
} counts[THREADS];

static void *take(void *count)
{
	unsigned dice = (unsigned)(size_t)count | 1;
	long taken = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct locked *one;

		dice ^= dice << 13;
		dice ^= dice >> 17;
		dice ^= dice << 5;
		one = &locked[(unsigned long)(dice >> 10) * locks >> 22];
		if (dice % 1000 < writes) {
			pthread_rwlock_wrlock(&one->lock);
			one->value++;
		} else {
			pthread_rwlock_rdlock(&one->lock);
			(void)one->value;
		}
		pthread_rwlock_unlock(&one->lock);
		taken++;
	}
	*(long *)count = taken;
	return NULL;
}

static void run(int threads)
{
	const struct timespec time = { 0, 250000000 };
	struct timespec from, to;
	pthread_t all[THREADS];
	double seconds;
	long taken = 0;

	for (unsigned i = 0; i < locks; i++)
		pthread_rwlock_init(&locked[i].lock, NULL);
	stop = 0;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < threads; i++) {
		if (pthread_create(&all[i], NULL, take, &counts[i].taken) != 0) {
			perror("readers: no thread");
			exit(1);
		}
	}
	nanosleep(&time, NULL);
	stop = 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(all[i], NULL);
		taken += counts[i].taken;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	for (unsigned i = 0; i < locks; i++)
		pthread_rwlock_destroy(&locked[i].lock);
	seconds = to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9;
	printf("{\"threads\": %d, \"locks\": %u, \"writes_in_1000\": %u, \"mops\": %.2f}\n", threads, locks, writes,
	       taken / seconds / 1e6);
	fflush(stdout);
}

int main(void)
{
	static const unsigned numbers[] = { 1, LOCKS }, shares[] = { 0, 1, 5, 10, 20 };
	const int many = sizeof(shares) / sizeof(*shares);

	locked = aligned_alloc(128, LOCKS * sizeof(*locked));
	if (locked == NULL) {
		perror("readers: no memory");
		return 1;
	}
	for (int threads = 1; threads <= THREADS; threads *= 2) {
		for (int i = 0; i < 2; i++) {
			for (int j = 0; j < many; j++) {
				locks = numbers[i];
				writes = shares[j];
				run(threads);
			}
		}
	}
	return 0;
}
