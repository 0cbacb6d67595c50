/* Distribution of work items to threads. A thread takes the next item when it is free; each item is processed once. */
#include <pthread.h>
#include <stdatomic.h>

typedef struct {
  void (*item)(int index, const void *context);
  const void *context;
  int count;
  atomic_int next;
} Work;

static void *take_items(void *argument) {
  Work *work = argument;
  for (int i; (i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed)) < work->count;)
    work->item(i, work->context);
  return NULL;
}

/* Threads are started for each call, which takes about 20 us, so that none remains after the call. If some threads
 * cannot be started, the call is only slower. */
static void parallel(int threads, size_t stack_bytes, int count, void (*item)(int, const void *), const void *context) {
  Work work = {.item = item, .context = context, .count = count};
  pthread_t others[threads];
  pthread_attr_t attributes;
  int started = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes + (1 << 18)); /* the default of macOS is 512 KiB per thread */
  while (started < threads - 1 && !pthread_create(&others[started], &attributes, take_items, &work)) started++;
  pthread_attr_destroy(&attributes);
  take_items(&work);
  while (started > 0) pthread_join(others[--started], NULL);
}
