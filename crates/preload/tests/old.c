/* A program as it was linked before glibc 2.3.2: its condition variables are 8 bytes, where
 * the C library keeps a pointer. What comes behind them is the program's own. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OLD(function) __asm__(".symver " #function ", " #function "@GLIBC_2.2.5")
OLD(pthread_cond_init);
OLD(pthread_cond_destroy);
OLD(pthread_cond_wait);
OLD(pthread_cond_timedwait);
OLD(pthread_cond_signal);
OLD(pthread_cond_broadcast);

static struct {
	union {
		pthread_cond_t cond; /* as this program's header has it */
		struct {
			void *pointer;
			unsigned char own[sizeof(pthread_cond_t) - sizeof(void *)];
		} old;
	};
} shared;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int waiting, ready, woken;
/* Not only called, but pointed to. */
static int (*volatile broadcast)(pthread_cond_t *) = pthread_cond_broadcast;

static void *wait_for(void *timed)
{
	struct timespec at = { time(NULL) + 1000000, 0 };

	pthread_mutex_lock(&mutex);
	waiting++;
	while (!ready) {
		if (timed)
			pthread_cond_timedwait(&shared.cond, &mutex, &at);
		else
			pthread_cond_wait(&shared.cond, &mutex);
	}
	woken++;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	size_t own = 0;

	memset(&shared, 0xa5, sizeof shared);
	pthread_cond_init(&shared.cond, NULL);
	pthread_cond_signal(&shared.cond);
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, wait_for, (void *)i);
	for (int all = 0; !all;) {
		pthread_mutex_lock(&mutex);
		all = waiting == 2;
		if (all) {
			ready = 1;
			broadcast(&shared.cond);
		}
		pthread_mutex_unlock(&mutex);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	while (own < sizeof shared.old.own && shared.old.own[own] == 0xa5)
		own++;
	printf("woken %d, %s\n", woken, own == sizeof shared.old.own ? "nothing overwritten" : "overwritten");
	pthread_cond_destroy(&shared.cond);
	return 0;
}
