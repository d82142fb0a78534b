/*
 * The sync of a group commit. durable.h has the invariants.
 */
#include "durable.h"

#include "images.h"

p3l_code p3l_pager_usable(p3l_pager *pager, p3l_error *error) {
  pthread_mutex_lock(&pager->sync);
  bool broken = pager->broken;
  pthread_mutex_unlock(&pager->sync);
  if (!broken) return P3L_OK;
  return p3l_fail(error, P3L_BROKEN,
                  "%s: the disk failed to sync; nothing more is written. Fix the disk, then open "
                  "the store again",
                  pager->path);
}

p3l_code p3l_log_make_durable(p3l_pager *pager, p3l_lsn position, p3l_error *error) {
  pthread_mutex_lock(&pager->sync);
  while (pager->durable.byte < position.byte && !pager->broken) {
    if (pager->syncing) {
      pthread_cond_wait(&pager->synced, &pager->sync);
      continue;
    }
    pager->syncing = true;
    p3l_lsn reached = pager->appended;
    pthread_mutex_unlock(&pager->sync);
    int failed = pager->log.device->sync(pager->log.device);
    pthread_mutex_lock(&pager->sync);
    pager->syncing = false;
    if (failed != 0)
      pager->broken = true;
    else
      pager->durable = reached;
    pthread_cond_broadcast(&pager->synced);
  }
  pthread_mutex_unlock(&pager->sync);
  return p3l_pager_usable(pager, error);
}
