// A bounded queue: two producers, two consumers, a mutex and two condition variables.
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <lockyard.hpp>
#include <mutex>
#include <thread>

template <class Item>
class bounded_queue {
public:
    explicit bounded_queue(std::size_t room) : room_(room) {}

    void put(Item item) {
        std::unique_lock lock(mutex_);
        emptied_.wait(lock, [&] { return items_.size() < room_; });
        items_.push_back(std::move(item));
        filled_.notify_one();
    }

    Item take() {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [&] { return !items_.empty(); });
        Item item = std::move(items_.front());
        items_.pop_front();
        emptied_.notify_one();
        return item;
    }

private:
    lockyard::mutex mutex_;
    lockyard::condition_variable filled_, emptied_;
    std::deque<Item> items_;
    const std::size_t room_;
};

int main() {
    constexpr int items = 2000;
    bounded_queue<int> queue(8);
    std::atomic<long> sum{0};
    std::array<std::thread, 4> threads;
    for (int i = 0; i < 2; i++) {
        threads[i] = std::thread([&] {
            for (int item = 1; item <= items; item++) queue.put(item);
        });
        threads[2 + i] = std::thread([&] {
            for (int item = 1; item <= items; item++) sum += queue.take();
        });
    }
    for (auto& thread : threads) thread.join();
    std::printf("%d items, the sum is %ld\n", 2 * items, sum.load());
}
