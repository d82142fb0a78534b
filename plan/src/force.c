/*
 * ccopt.force, planning: prevents a harmful result of paths with cost 0.
 *
 * A Gather of such a path also costs nothing, nor does its rescan. As the inner side of a nested
 * loop it starts its workers for each outer row, which takes milliseconds each time: a join of a
 * few thousand rows ran for minutes. A Material node between them reads the rows once.
 */
#include "compat.h"

#include "doors.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"

static bool starts_workers(const Path *path);

static bool any_starts_workers(const List *paths) {
  ListCell *cell;
  foreach (cell, paths)
    if (starts_workers(lfirst(cell))) return true;
  return false;
}

/*
 * True if rescanning the path starts workers again. Node types that are not listed keep their rows,
 * or have no such child.
 */
static bool starts_workers(const Path *path) {
  switch (nodeTag(path)) {
    case T_GatherPath:
    case T_GatherMergePath: return true;
    case T_AppendPath: return any_starts_workers(((const AppendPath *)path)->subpaths);
    case T_MergeAppendPath: return any_starts_workers(((const MergeAppendPath *)path)->subpaths);
    case T_CustomPath: return any_starts_workers(((const CustomPath *)path)->custom_paths);
    case T_SubqueryScanPath: return starts_workers(((const SubqueryScanPath *)path)->subpath);
    case T_ProjectionPath: return starts_workers(((const ProjectionPath *)path)->subpath);
    case T_ProjectSetPath: return starts_workers(((const ProjectSetPath *)path)->subpath);
    case T_LimitPath: return starts_workers(((const LimitPath *)path)->subpath);
    case T_AggPath: return starts_workers(((const AggPath *)path)->subpath);
    case T_GroupPath: return starts_workers(((const GroupPath *)path)->subpath);
    case T_WindowAggPath: return starts_workers(((const WindowAggPath *)path)->subpath);
    default: return false;
  }
}

void force_add_materials(RelOptInfo *joinrel) {
  ListCell *cell;

  foreach (cell, joinrel->pathlist) {
    JoinPath *join = lfirst(cell);
    Path *inner;
    if (!IsA(join, NestPath)) continue;
    inner = join->innerjoinpath;
    if (PATH_REQ_OUTER(inner) == NULL && starts_workers(inner))
      join->innerjoinpath = (Path *)create_material_path(inner->parent, inner);
  }
}
