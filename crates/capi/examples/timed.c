/* A lock with a deadline: who holds the mutex gives it back only when told to. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <lockyard.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static lockyard_pimutex_t mutex = LOCKYARD_PIMUTEX_INITIALIZER;
static lockyard_picond_t changed = LOCKYARD_PICOND_INITIALIZER;
static int held, enough;

/* Holds `mutex`, but for the time that it waits. */
static void *hold(void *busy) {
    lockyard_mutex_lock(busy);
    lockyard_pimutex_lock(&mutex);
    held = 1;
    lockyard_picond_broadcast(&changed);
    while (!enough)
        lockyard_picond_wait(&changed, &mutex);
    lockyard_pimutex_unlock(&mutex);
    lockyard_mutex_unlock(busy);
    return NULL;
}

static struct timespec in_milliseconds(long ms) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += ms * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

int main(void) {
    lockyard_mutex_t busy;
    pthread_t holder;
    struct timespec soon, later;

    lockyard_mutex_init(&busy);
    pthread_create(&holder, NULL, hold, &busy);
    lockyard_pimutex_lock(&mutex);
    while (!held)
        lockyard_picond_wait(&changed, &mutex);
    lockyard_pimutex_unlock(&mutex);

    soon = in_milliseconds(20);
    if (lockyard_mutex_timedlock(&busy, &soon) == ETIMEDOUT)
        puts("it is busy");

    lockyard_pimutex_lock(&mutex);
    enough = 1;
    lockyard_picond_signal(&changed);
    lockyard_pimutex_unlock(&mutex);

    later = in_milliseconds(60 * 60 * 1000L);
    if (lockyard_mutex_timedlock(&busy, &later) == 0) {
        puts("it is ours");
        lockyard_mutex_unlock(&busy);
    }
    pthread_join(holder, NULL);
    lockyard_mutex_destroy(&busy);
    return 0;
}
