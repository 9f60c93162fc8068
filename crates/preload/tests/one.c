/* Uses each kind of lock once, and says whose they are: glibc writes the owner's thread into
 * the third word of a mutex, and we nothing. */
#include <pthread.h>
#include <stdio.h>

static union {
	pthread_mutex_t mutex;
	int words[8];
} lock;

int main(void)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec past = { 1, 0 };
	int theirs;

	pthread_mutex_init(&lock.mutex, NULL);
	pthread_mutex_lock(&lock.mutex);
	theirs = lock.words[2] != 0;
	pthread_cond_signal(&cond);
	pthread_cond_broadcast(&cond);
	pthread_cond_timedwait(&cond, &lock.mutex, &past);
	pthread_mutex_unlock(&lock.mutex);
	pthread_mutex_destroy(&lock.mutex);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_rwlock_wrlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_rwlock_destroy(&rwlock);
	pthread_cond_destroy(&cond);
	puts(theirs ? "they are glibc's" : "they are ours");
	return 0;
}
