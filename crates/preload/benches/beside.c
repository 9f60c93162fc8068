/* How much several processes do together, each with threads that want a mutex of its own: millions
 * of acquisitions a second in all. A waiter that spins while its owner runs takes the CPU from the
 * others. Run it plain and preloaded, in turns:
 *
 *	cc -O2 -pthread crates/preload/benches/beside.c -o beside
 *	for i in 1 2 3; do ./beside 4 2 2000 2000; lockyard run ./beside 4 2 2000 2000; done
 *
 * with four processes of two threads, which hold the mutex for 2000 ns and compute for as long
 * between.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;
static int steps_held, steps_between;

static void compute(int steps)
{
	unsigned long step = steps;

	for (int i = 0; i < steps; i++) {
		step = step * 7 + 1;
		__asm__ volatile("" : "+r"(step));
	}
}

static void *take(void *taken)
{
	long times = 0;

	for (; !stop; times++) {
		pthread_mutex_lock(&mutex);
		compute(steps_held);
		pthread_mutex_unlock(&mutex);
		compute(steps_between);
	}
	*(long *)taken = times;
	return NULL;
}

/* What one process does in a second. */
static long one(int threads)
{
	const struct timespec second = { 1, 0 };
	pthread_t thread[MOST];
	long taken[MOST], all = 0;

	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, take, &taken[i]) != 0) {
			fprintf(stderr, "beside: no thread %d\n", i);
			_exit(1);
		}
	nanosleep(&second, NULL);
	stop = 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		all += taken[i];
	}
	return all;
}

/* Steps of `compute` in so many nanoseconds, the most of a few tries. */
static int steps_of(int ns)
{
	enum { STEPS = 100000, TRIES = 20 };
	double best = 1e9;

	for (int i = 0; i < TRIES; i++) {
		struct timespec began, ended;

		clock_gettime(CLOCK_MONOTONIC, &began);
		compute(STEPS);
		clock_gettime(CLOCK_MONOTONIC, &ended);
		double took = (ended.tv_sec - began.tv_sec) * 1e9 + ended.tv_nsec - began.tv_nsec;
		if (took < best)
			best = took;
	}
	return ns * (STEPS / best);
}

int main(int count, char **arguments)
{
	int numbers[4] = { 0 };

	for (int i = 0; i < 4 && i + 1 < count; i++)
		numbers[i] = atoi(arguments[i + 1]);
	int processes = numbers[0], threads = numbers[1];
	if (count != 5 || processes < 1 || processes > MOST || threads < 1 || threads > MOST) {
		fprintf(stderr, "usage: beside PROCESSES THREADS HELD_NS BETWEEN_NS, of both at most %d\n",
			MOST);
		return 2;
	}
	steps_held = steps_of(numbers[2]);
	steps_between = steps_of(numbers[3]);
	long *taken = mmap(NULL, MOST * sizeof *taken, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (taken == MAP_FAILED) {
		perror("beside: mmap");
		return 1;
	}
	for (int i = 0; i < processes; i++) {
		pid_t child = fork();
		if (child == 0) {
			taken[i] = one(threads);
			_exit(0);
		} else if (child < 0) {
			perror("beside: fork");
			return 1;
		}
	}
	long all = 0;
	int status, failed = 0;
	while (wait(&status) > 0)
		failed |= status != 0;
	for (int i = 0; i < processes; i++)
		all += taken[i];
	if (!failed)
		printf("%.3f\n", all / 1e6);
	return failed;
}
