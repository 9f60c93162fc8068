/* The library has registered the process before main: with several threads, the first lock
   would have to wait for it. */
#define _GNU_SOURCE
#include <lockyard.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GET_REGISTRATIONS (1 << 9) /* Linux 6.3 */
#define PRIVATE_EXPEDITED_RSEQ (1 << 8)

extern const unsigned int __rseq_size __attribute__((weak)); /* glibc 2.35 */

static lockyard_mutex_t mutex = LOCKYARD_MUTEX_INITIALIZER;

int main(void)
{
    long registered = syscall(SYS_membarrier, GET_REGISTRATIONS, 0, 0);
    int knows = registered >= 0 && &__rseq_size != NULL && __rseq_size != 0;

    puts(!knows || registered & PRIVATE_EXPEDITED_RSEQ ? "registered" : "not registered");
    lockyard_mutex_lock(&mutex);
    return lockyard_mutex_unlock(&mutex);
}
