/* Uses each kind of lock once, and says whose they are: glibc writes the owner's thread into
 * the third word of a mutex, and into the seventh of an rwlock, and we nothing. In the ninth
 * of an rwlock we have which lock it is, if that was asked for. */
#include <pthread.h>
#include <stdio.h>

static union {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	int words[9];
} lock, rw = { .rwlock = PTHREAD_RWLOCK_INITIALIZER };

int main(void)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec past = { 1, 0 };
	const char *mutexes, *rwlocks;

	pthread_mutex_init(&lock.mutex, NULL);
	pthread_mutex_lock(&lock.mutex);
	mutexes = lock.words[4] >> 16 == 0x5049 ? "ours and inherit" : lock.words[2] ? "glibc's" : "ours";
	pthread_cond_signal(&cond);
	pthread_cond_broadcast(&cond);
	pthread_cond_timedwait(&cond, &lock.mutex, &past);
	pthread_mutex_unlock(&lock.mutex);
	pthread_mutex_destroy(&lock.mutex);
	pthread_rwlock_rdlock(&rw.rwlock);
	pthread_rwlock_unlock(&rw.rwlock);
	pthread_rwlock_wrlock(&rw.rwlock);
	rwlocks = rw.words[6] ? "glibc's" : rw.words[8] ? "ours for each CPU" : "ours";
	pthread_rwlock_unlock(&rw.rwlock);
	pthread_rwlock_destroy(&rw.rwlock);
	pthread_cond_destroy(&cond);
	printf("mutexes are %s, rwlocks %s\n", mutexes, rwlocks);
	return 0;
}
