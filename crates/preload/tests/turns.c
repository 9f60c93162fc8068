/* Two threads take turns, and wait for theirs. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *take_turns(void *own)
{
	for (int i = 0; i < 500; i++) {
		pthread_mutex_lock(&mutex);
		while (turn != *(int *)own)
			pthread_cond_wait(&passed, &mutex);
		turn = !turn;
		pthread_cond_broadcast(&passed);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	int owns[2] = {0, 1};

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, take_turns, &owns[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	return 0;
}
