/* Readers and writers: a pair that must always be equal, under each of the two locks. */
#include <lockyard.h>
#include <pthread.h>
#include <stdio.h>

enum { WRITES = 200, READS = 5000 };

static lockyard_rwlock_t rwlock = LOCKYARD_RWLOCK_INITIALIZER;
static lockyard_percpu_rwlock_t percpu = LOCKYARD_PERCPU_RWLOCK_INITIALIZER;
static int left, right;
static int far_left, far_right;

static void *writer(void *unused) {
    for (int i = 0; i < WRITES; i++) {
        lockyard_rwlock_wrlock(&rwlock);
        left++;
        right++;
        lockyard_rwlock_unlock(&rwlock);

        lockyard_percpu_rwlock_wrlock(&percpu);
        far_left++;
        far_right++;
        lockyard_percpu_rwlock_unlock(&percpu);
    }
    return unused;
}

static void *reader(void *torn) {
    for (int i = 0; i < READS; i++) {
        lockyard_rwlock_rdlock(&rwlock);
        *(int *)torn += left != right;
        lockyard_rwlock_unlock(&rwlock);

        lockyard_percpu_rwlock_rdlock(&percpu);
        *(int *)torn += far_left != far_right;
        lockyard_percpu_rwlock_unlock(&percpu);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    int torn[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, writer, NULL);
        pthread_create(&threads[2 + i], NULL, reader, &torn[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    /* This lock alone has something to give back. */
    lockyard_percpu_rwlock_destroy(&percpu);
    printf("%d and %d writes, %d torn reads\n", left, far_left, torn[0] + torn[1]);
    return 0;
}
