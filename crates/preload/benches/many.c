/* What an uncontended rwlock costs a thread that takes one of many, by chance. Run it plain and
 * preloaded, in turns:
 *
 *	cc -O2 -pthread crates/preload/benches/many.c -o many
 *	for i in 1 2 3; do ./many; lockyard run ./many; done
 *
 * It prints JSON, a line for each number of locks: nanoseconds of a lock and its unlock, the
 * median of the rounds, of which each has some of every kind.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KINDS = 3, ROUNDS = 25, TIMES = 100000 };

static const char *const names[KINDS] = {"read", "write", "either"};
static double took[KINDS][ROUNDS];

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double lock_all(pthread_rwlock_t **locks, unsigned number, int kind)
{
	static unsigned dice = 1;
	double began = now_ns();

	for (int i = 0; i < TIMES; i++) {
		pthread_rwlock_t *lock;

		dice = dice * 1664525 + 1013904223;
		lock = locks[(dice >> 12) % number];
		if (kind == 0 || (kind == 2 && dice & 0x100))
			pthread_rwlock_rdlock(lock);
		else
			pthread_rwlock_wrlock(lock);
		pthread_rwlock_unlock(lock);
	}
	return (now_ns() - began) / TIMES;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	for (unsigned number = 16; number <= 32768; number *= 8) {
		pthread_rwlock_t **locks = malloc(number * sizeof(*locks));

		for (unsigned i = 0; i < number; i++) {
			locks[i] = malloc(sizeof(**locks));
			pthread_rwlock_init(locks[i], NULL);
		}
		for (int round = 0; round < ROUNDS; round++)
			for (int kind = 0; kind < KINDS; kind++)
				took[kind][round] = lock_all(locks, number, kind);
		printf("{\"locks\": %u", number);
		for (int kind = 0; kind < KINDS; kind++) {
			qsort(took[kind], ROUNDS, sizeof(double), by_size);
			printf(", \"%s_ns\": %.1f", names[kind], took[kind][ROUNDS / 2]);
		}
		printf("}\n");
	}
	return 0;
}
