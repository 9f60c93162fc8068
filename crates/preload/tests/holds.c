/* Holds of locks within others, to be timed. */
#include <pthread.h>
#include <unistd.h>

enum { FIRST = 64, TIMES = 300, HOLD_US = 100, DEEP = 8 };

static pthread_rwlock_t nested = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t outermost = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t within[DEEP] = { [0 ... DEEP - 1] = PTHREAD_MUTEX_INITIALIZER };
static pthread_mutex_t innermost = PTHREAD_MUTEX_INITIALIZER;

int main(void)
{
	/* So many are timed, whatever comes. */
	for (int i = 0; i < FIRST; i++) {
		pthread_rwlock_rdlock(&nested);
		pthread_rwlock_unlock(&nested);
	}
	for (int i = 0; i < TIMES; i++) {
		pthread_rwlock_rdlock(&nested);
		pthread_rwlock_rdlock(&nested);
		pthread_rwlock_unlock(&nested);
		usleep(HOLD_US);
		pthread_rwlock_unlock(&nested);
	}

	/* More than are timed at once. */
	pthread_mutex_lock(&outermost);
	for (int i = 0; i < DEEP; i++)
		pthread_mutex_lock(&within[i]);
	pthread_mutex_lock(&innermost);
	usleep(TIMES * HOLD_US);
	pthread_mutex_unlock(&innermost);
	for (int i = 0; i < DEEP; i++)
		pthread_mutex_unlock(&within[i]);
	pthread_mutex_unlock(&outermost);
	return 0;
}
