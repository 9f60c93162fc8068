/* A mutex of four bytes on the futex (Drepper's third, of "Futexes Are Tricky"), and a gate
 * that opens for all. C11 for its atomics: lockyard.h itself needs none. */
#include <limits.h>
#include <lockyard.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, ADDS = 2000 };
enum { FREE, TAKEN, WAITED_FOR };

static _Atomic uint32_t mutex, gate_is_open;
static long total;

static void lock(void) {
    uint32_t found = FREE;
    if (!atomic_compare_exchange_strong(&mutex, &found, TAKEN)) {
        while (atomic_exchange(&mutex, WAITED_FOR) != FREE)
            lockyard_futex_wait(&mutex, WAITED_FOR, NULL);
    }
}

static void unlock(void) {
    if (atomic_exchange(&mutex, FREE) == WAITED_FOR)
        lockyard_futex_wake(&mutex, 1, NULL);
}

static void *add(void *unused) {
    while (!gate_is_open)
        lockyard_futex_wait(&gate_is_open, 0, NULL);
    for (int i = 0; i < ADDS; i++) {
        lock();
        total++;
        unlock();
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    gate_is_open = 1;
    lockyard_futex_wake(&gate_is_open, INT_MAX, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d threads have added %d each: %ld\n", THREADS, ADDS, total);
    return 0;
}
