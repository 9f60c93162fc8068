"""A program of Python's, whose interpreter locks by pthread's mutexes and conditions."""

import concurrent.futures
import queue
import subprocess
import sys
import threading

items, sums = queue.Queue(3), []


def work():
    total = 0
    while (item := items.get()) is not None:
        total += item
    sums.append(total)


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for item in range(1000):
    items.put(item)
for _ in threads:
    items.put(None)
for thread in threads:
    thread.join()
print("queue", sum(sums))

lock = threading.RLock()
with lock, lock:
    print("lock", threading.Lock().acquire(timeout=0.01), lock.acquire(blocking=False))
    lock.release()
print("event", threading.Event().wait(0.01))

barrier = threading.Barrier(3)
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    print("barrier", sorted(pool.map(lambda _: barrier.wait(), range(3))))
    print("pool", sum(pool.map(lambda n: n * n, range(100))))

child = subprocess.run([sys.executable, "-c", "print('child')"], stdout=subprocess.PIPE, text=True)
print(child.stdout.strip(), child.returncode)
