/* Holds of locks within others, to be timed. */
#include <pthread.h>
#include <unistd.h>

enum { FIRST = 64, TIMES = 300, HOLD_US = 100 };

static pthread_rwlock_t nested = PTHREAD_RWLOCK_INITIALIZER;

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
	return 0;
}
