// The types of C++ that are made of pthread's: their users know nothing of that.

#include <chrono>
#include <condition_variable>
#include <future>
#include <iostream>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static std::mutex one, two;
static std::recursive_mutex again;
static std::timed_mutex timed;
static std::shared_mutex shared;
static std::shared_timed_mutex shared_timed;
static std::condition_variable changed;
static std::condition_variable_any any_changed;

template <typename Work> static void in_threads(Work work)
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(work, i);
	for (auto &thread : threads)
		thread.join();
}

int main()
{
	long count = 0;
	in_threads([&](int i) {
		for (int n = 0; n < 2000; n++) {
			// In either order: it takes both or none.
			if (i % 2) {
				std::scoped_lock both(one, two);
				count++;
			} else {
				std::scoped_lock both(two, one);
				count++;
			}
		}
	});
	std::cout << "scoped_lock " << count << "\n";

	std::unique_lock outer(again);
	std::unique_lock inner(again);
	std::cout << "recursive_mutex " << inner.owns_lock() << "\n";

	timed.lock();
	auto tried = std::async(std::launch::async, [] { return timed.try_lock_for(2ms) || timed.try_lock_until(std::chrono::system_clock::now()); });
	std::cout << "timed_mutex " << tried.get() << "\n";
	timed.unlock();

	long a = 0, b = 0, torn = 0;
	in_threads([&](int i) {
		for (int n = 0; n < 1000; n++) {
			if (n % 4 == i) {
				std::unique_lock writing(shared);
				a++;
				b++;
			} else {
				std::shared_lock reading(shared);
				torn += a != b;
			}
		}
	});
	std::cout << "shared_mutex " << a << " " << torn << "\n";

	shared_timed.lock_shared();
	auto wrote = std::async(std::launch::async, [] { return shared_timed.try_lock_for(2ms); });
	auto read = std::async(std::launch::async, [] { return shared_timed.try_lock_shared_for(1h) && (shared_timed.unlock_shared(), true); });
	std::cout << "shared_timed_mutex " << wrote.get() << read.get() << "\n";
	shared_timed.unlock_shared();

	bool ready = false;
	int woken = 0;
	std::vector<std::thread> waiters;
	for (int i = 0; i < 3; i++)
		waiters.emplace_back([&] {
			std::unique_lock lock(one);
			changed.wait(lock, [&] { return ready; });
			woken++;
		});
	{
		std::lock_guard lock(one);
		ready = true;
	}
	changed.notify_all();
	for (auto &waiter : waiters)
		waiter.join();
	std::unique_lock lock(one);
	auto status = changed.wait_for(lock, 2ms);
	auto until = changed.wait_until(lock, std::chrono::system_clock::now() + 2ms);
	std::cout << "condition_variable " << woken << (status == std::cv_status::timeout)
		  << (until == std::cv_status::timeout) << "\n";

	std::shared_lock reading(shared);
	std::cout << "condition_variable_any " << any_changed.wait_for(reading, 2ms, [] { return false; }) << "\n";

	std::once_flag once;
	int times = 0;
	in_threads([&](int) { std::call_once(once, [&] { times++; }); });
	std::promise<int> promise;
	auto future = promise.get_future();
	std::thread([&] { promise.set_value_at_thread_exit(7); }).join();
	std::cout << "call_once " << times << ", future " << future.get() << "\n";
}
