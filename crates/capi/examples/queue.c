/* A bounded queue: two producers, two consumers, a mutex and two condition variables. */
#include <lockyard.h>
#include <pthread.h>
#include <stdio.h>

enum { ROOM = 8, ITEMS = 2000, PRODUCERS = 2, CONSUMERS = 2 };

static struct {
    lockyard_mutex_t mutex;
    lockyard_cond_t filled;
    lockyard_cond_t emptied;
    int items[ROOM];
    unsigned first, count;
} queue = {
    .mutex = LOCKYARD_MUTEX_INITIALIZER,
    .filled = LOCKYARD_COND_INITIALIZER,
    .emptied = LOCKYARD_COND_INITIALIZER,
};

static void put(int item) {
    lockyard_mutex_lock(&queue.mutex);
    while (queue.count == ROOM)
        lockyard_cond_wait(&queue.emptied, &queue.mutex);
    queue.items[(queue.first + queue.count++) % ROOM] = item;
    lockyard_cond_signal(&queue.filled);
    lockyard_mutex_unlock(&queue.mutex);
}

static int take(void) {
    int item;
    lockyard_mutex_lock(&queue.mutex);
    while (queue.count == 0)
        lockyard_cond_wait(&queue.filled, &queue.mutex);
    item = queue.items[queue.first];
    queue.first = (queue.first + 1) % ROOM;
    queue.count--;
    lockyard_cond_signal(&queue.emptied);
    lockyard_mutex_unlock(&queue.mutex);
    return item;
}

static void *produce(void *unused) {
    for (int i = 1; i <= ITEMS; i++)
        put(i);
    return unused;
}

static void *consume(void *sum) {
    for (int i = 0; i < ITEMS * PRODUCERS / CONSUMERS; i++)
        *(long *)sum += take();
    return NULL;
}

int main(void) {
    pthread_t threads[PRODUCERS + CONSUMERS];
    long sums[CONSUMERS] = {0};
    for (int i = 0; i < PRODUCERS; i++)
        pthread_create(&threads[i], NULL, produce, NULL);
    for (int i = 0; i < CONSUMERS; i++)
        pthread_create(&threads[PRODUCERS + i], NULL, consume, &sums[i]);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    printf("%d items, the sum is %ld\n", ITEMS * PRODUCERS, sums[0] + sums[1]);
    return 0;
}
