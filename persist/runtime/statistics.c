#include "store.h"

void p3l_get_statistics(p3l_store *store, p3l_statistics *statistics) {
  pthread_mutex_lock(&store->slow);
  *statistics = store->statistics;
  pthread_mutex_unlock(&store->slow);
}
