/* The library is opened at run time, used by a thread, and closed before that ends. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t used, closed;
static int (*lock)(void *), (*unlock)(void *);
static unsigned long long mutex[2];

static void *use(void *unused) {
    for (int i = 0; i < 100; i++)
        if (lock(mutex) != 0 || unlock(mutex) != 0)
            puts("it does not lock");
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return unused; /* and calls back */
}

int main(int count, char **arguments) {
    pthread_t thread;
    void *library = dlopen(count > 1 ? arguments[1] : "liblockyard.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        return 1;
    }
    *(void **)&lock = dlsym(library, "lockyard_mutex_lock");
    *(void **)&unlock = dlsym(library, "lockyard_mutex_unlock");
    pthread_barrier_init(&used, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    pthread_create(&thread, NULL, use, NULL);
    pthread_barrier_wait(&used);
    printf("closed: %d\n", dlclose(library));
    pthread_barrier_wait(&closed);
    pthread_join(thread, NULL);
    puts("ended");
    return 0;
}
