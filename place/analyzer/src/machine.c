/* The processors and caches of this machine from hwloc as a flat table, for machine.rs. */
#include <hwloc.h>
#include <stdint.h>

struct split_machine_cpu {
  uint32_t id, core, l2, l3, node;
};
struct split_machine_caches {
  uint64_t l2_bytes, l3_bytes;
};

/* The logical index of the ancestor of that type; `without` if there is none. */
static uint32_t ancestor(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t pu,
                         uint32_t without, uint64_t *bytes) {
  hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(topology, type, pu);
  if (object == NULL) return without;
  if (bytes != NULL) *bytes = object->attr->cache.size;
  return object->logical_index;
}

static uint32_t node_of(hwloc_topology_t topology, unsigned cpu) {
  hwloc_obj_t node = NULL;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL)
    if (hwloc_bitmap_isset(node->cpuset, cpu)) return node->logical_index;
  return 0;
}

/* Fills in the processors that this process's cgroup allows, of this machine or of one in
 * hwloc's synthetic notation. Returns their number (if it exceeds `room`, the rest was left
 * out), or -1. */
int split_machine_read(const char *synthetic, struct split_machine_cpu *cpus, unsigned room,
                       struct split_machine_caches *caches) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return -1;
  if ((synthetic != NULL && hwloc_topology_set_synthetic(topology, synthetic) != 0) ||
      hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return -1;
  }
  *caches = (struct split_machine_caches){0, 0};
  int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  for (int index = 0; index < count && (unsigned)index < room; index++) {
    hwloc_obj_t pu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)index);
    uint32_t core = ancestor(topology, HWLOC_OBJ_CORE, pu, pu->logical_index, NULL);
    /* For machines that do not report their caches: an L2 per core and an L3 per package, the
     * usual design since 2008. */
    uint32_t package = ancestor(topology, HWLOC_OBJ_PACKAGE, pu, 0, NULL);
    cpus[index] = (struct split_machine_cpu){
        .id = pu->os_index,
        .core = core,
        .l2 = ancestor(topology, HWLOC_OBJ_L2CACHE, pu, core, &caches->l2_bytes),
        .l3 = ancestor(topology, HWLOC_OBJ_L3CACHE, pu, package, &caches->l3_bytes),
        .node = node_of(topology, pu->os_index),
    };
  }
  hwloc_topology_destroy(topology);
  return count;
}
