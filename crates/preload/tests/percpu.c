/* More rwlocks at once than can have per-CPU counters: all are locks, and those counters are there
 * again when they are destroyed. The ninth word says which lock it is, as src/rwlock.rs has it. */
#include <errno.h>
#include <pthread.h>

#include "code.h"

enum { LOCKS = 10000, PERCPU = 1, MOST = 4000 };

static union {
	pthread_rwlock_t lock;
	unsigned words[14];
} rw[LOCKS];

static int use_all(void)
{
	int i, percpu = 0;

	for (i = 0; i < LOCKS; i++) {
		CODE(pthread_rwlock_rdlock(&rw[i].lock), 0);
		CODE(pthread_rwlock_tryrdlock(&rw[i].lock), 0);
		CODE(pthread_rwlock_trywrlock(&rw[i].lock), EBUSY);
		CODE(pthread_rwlock_unlock(&rw[i].lock), 0);
		CODE(pthread_rwlock_unlock(&rw[i].lock), 0);
		CODE(pthread_rwlock_wrlock(&rw[i].lock), 0);
		CODE(pthread_rwlock_tryrdlock(&rw[i].lock), EBUSY);
		CODE(pthread_rwlock_unlock(&rw[i].lock), 0);
		percpu += rw[i].words[8] == PERCPU;
	}
	return percpu;
}

static void destroy_all(void)
{
	int i;

	for (i = 0; i < LOCKS; i++)
		CODE(pthread_rwlock_destroy(&rw[i].lock), 0);
}

int main(void)
{
	int i;

	for (i = 0; i < LOCKS; i++)
		CODE(pthread_rwlock_init(&rw[i].lock, NULL), 0);
	CODE(use_all(), MOST);
	CODE(use_all(), MOST);
	destroy_all();
	for (i = 0; i < LOCKS; i++)
		CODE(pthread_rwlock_init(&rw[i].lock, NULL), 0);
	CODE(use_all(), MOST);
	destroy_all();
	puts(failures ? "failed" : "ok");
	return failures != 0;
}
