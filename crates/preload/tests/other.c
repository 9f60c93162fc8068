/* A function for condition variables that calls the next one by its version: of a program, or of a
   library that is preloaded as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#ifdef __x86_64__
#define VERSION "GLIBC_2.3.2"
#else
#define VERSION "GLIBC_2.17"
#endif

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	static int (*next)(pthread_cond_t *, pthread_mutex_t *);

	if (!next)
		*(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_wait", VERSION);
	return next(cond, mutex);
}
