/* Locks of ours that have counted nearly as far as they can, for which nobody could wait: the
 * words with the counts, as crates/core/src/rwsem.rs and src/mutex.rs have them, are written
 * here. With an argument of two words, an rwlock's writers come first. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "code.h"

enum { READER = 32, FULL = 1 << 29 };

static union {
	pthread_rwlock_t lock;
	unsigned words[14];
} rw;

static union {
	pthread_mutex_t lock;
	unsigned words[10];
} mutex = { .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };

int main(int argc, char **argv)
{
	struct timespec past = { 1, 0 };
	pthread_rwlockattr_t attributes;

	pthread_rwlockattr_init(&attributes);
	if (argc > 1 && strchr(argv[1], '-'))
		pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&rw.lock, &attributes);
	rw.words[0] = FULL - 2 * READER;
	CODE(pthread_rwlock_tryrdlock(&rw.lock), 0);
	CODE(pthread_rwlock_tryrdlock(&rw.lock), EAGAIN);
	CODE(pthread_rwlock_rdlock(&rw.lock), EAGAIN);
	CODE(pthread_rwlock_timedrdlock(&rw.lock, &past), EAGAIN);
	CODE(pthread_rwlock_clockrdlock(&rw.lock, CLOCK_MONOTONIC, &past), EAGAIN);
	CODE(pthread_rwlock_trywrlock(&rw.lock), EBUSY);
	CODE(pthread_rwlock_timedwrlock(&rw.lock, &past), ETIMEDOUT);
	CODE(pthread_rwlock_unlock(&rw.lock), 0);
	CODE(pthread_rwlock_rdlock(&rw.lock), 0);
	CODE(pthread_rwlock_rdlock(&rw.lock), EAGAIN);
	rw.words[0] = READER;
	CODE(pthread_rwlock_unlock(&rw.lock), 0);
	CODE(pthread_rwlock_wrlock(&rw.lock), 0);
	CODE(pthread_rwlock_unlock(&rw.lock), 0);
	CODE(pthread_rwlock_destroy(&rw.lock), 0);

	CODE(pthread_mutex_lock(&mutex.lock), 0);
	mutex.words[6] = -2u;
	CODE(pthread_mutex_lock(&mutex.lock), 0);
	CODE(pthread_mutex_lock(&mutex.lock), EAGAIN);
	CODE(pthread_mutex_trylock(&mutex.lock), EAGAIN);
	CODE(pthread_mutex_timedlock(&mutex.lock, &past), EAGAIN);
	mutex.words[6] = 0;
	CODE(pthread_mutex_unlock(&mutex.lock), 0);
	CODE(pthread_mutex_unlock(&mutex.lock), EPERM);
	CODE(pthread_mutex_destroy(&mutex.lock), 0);
	if (!failures)
		puts("ok");
	return failures != 0;
}
