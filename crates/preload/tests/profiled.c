/* Locks to be profiled: how often each is taken is known, and who must wait. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, TIMES = 5000, READS = 300, WRITES = 200, FORKED = 7 };

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t *made;
static volatile int is_open, waits, data;

__attribute__((noinline)) static void take_hot(void)
{
	pthread_mutex_lock(&hot); /* this line is hot */
	data++;
	pthread_mutex_unlock(&hot);
}

static void *worker(void *unused)
{
	for (int i = 0; i < TIMES; i++)
		take_hot();
	return unused;
}

/* Waits for the owner, which sleeps until this one says that it comes. */
static void *waiter(void *mutex)
{
	waits = 1;
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
	return NULL;
}

static void *opener(void *unused)
{
	pthread_mutex_lock(&gate);
	is_open = 1;
	pthread_cond_signal(&opened);
	pthread_mutex_unlock(&gate);
	return unused;
}

__attribute__((noinline)) static pthread_mutex_t *make(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t *mutex = malloc(sizeof *mutex);

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(mutex, &attributes); /* this line makes */
	return mutex;
}

static sem_t reports;
static void (*in_report)(void);

/* The report looks names up by it. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data)
{
	int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
	void (*first)(void) = in_report;

	*(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	in_report = NULL;
	if (first)
		first();
	return next(visit, data);
}

static void end(int signal)
{
	(void)signal;
	_exit(0);
}

static void interrupt(void)
{
	raise(SIGUSR1);
}

static void *end_during_report(void *unused)
{
	sem_wait(&reports);
	_exit(0);
	return unused;
}

static void *end_at_once(void *unused)
{
	_exit(0);
	return unused;
}

static void tell_and_wait(void)
{
	sem_post(&reports);
	usleep(100000);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], other;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	for (int i = 0; i < READS; i++) {
		pthread_rwlock_rdlock(&table);
		pthread_rwlock_unlock(&table);
	}
	for (int i = 0; i < WRITES; i++) {
		pthread_rwlock_wrlock(&table);
		pthread_rwlock_unlock(&table);
	}

	/* Once by each, and once after the wait. */
	pthread_mutex_lock(&gate);
	pthread_create(&other, NULL, opener, NULL);
	while (!is_open)
		pthread_cond_wait(&opened, &gate);
	pthread_mutex_unlock(&gate);
	pthread_join(other, NULL);

	/* Twice by its owner, which counts once, and once by the waiter. */
	made = make();
	pthread_mutex_lock(made);
	pthread_mutex_lock(made);
	pthread_create(&other, NULL, waiter, made);
	while (!waits)
		sched_yield();
	usleep(100000);
	pthread_mutex_unlock(made);
	pthread_mutex_unlock(made);
	pthread_join(other, NULL);

	if (argc > 1 && !strcmp(argv[1], "fork") && fork() == 0) {
		for (int i = 0; i < FORKED; i++)
			take_hot();
		exit(0);
	}
	if (argc > 1 && !strcmp(argv[1], "vfork") && vfork() == 0)
		_exit(0); /* in its parent's memory */
	wait(NULL);
	if (argc > 1 && !strcmp(argv[1], "_exit"))
		_exit(0);
	if (argc > 1 && !strcmp(argv[1], "_Exit"))
		_Exit(0);
	if (argc > 1 && !strcmp(argv[1], "quick_exit"))
		quick_exit(0);
	if (argc > 1 && !strcmp(argv[1], "handler")) {
		signal(SIGUSR1, end);
		in_report = interrupt;
	}
	if (argc > 1 && !strcmp(argv[1], "another")) {
		pthread_create(&other, NULL, end_during_report, NULL);
		in_report = tell_and_wait;
	}
	if (argc > 1 && !strcmp(argv[1], "small")) {
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
		pthread_create(&other, &attributes, end_at_once, NULL);
		pthread_join(other, NULL);
	}
	return 0;
}
