-- ccopt.require makes a plan without the node an error that says why.
set max_parallel_workers_per_gather = 0;
set ccopt.buffer = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.margin = 1;  -- whatever is calibrated
create table require_rows (k int primary key, filler text not null);
insert into require_rows select i, repeat('x', 50) from generate_series(1, 20000) i;
vacuum analyze require_rows;
set ccopt.require = 'BatchScan';

select count(*) from require_rows where filler <> 'y';
-- Subplans count.
select (select count(*) from require_rows r where r.k <> v) from (values (1)) as v(v);
-- A statement that reads no table cannot fail the requirement.
select 1 as one;

-- Why not.
select k from require_rows for update;
update require_rows set k = k;
select * from require_rows where k = 5;
set ccopt.enabled = off;
select count(*) from require_rows where filler <> 'y';
set ccopt.enabled = on;
set ccopt.enable_batch_scan = off;
select count(*) from require_rows where filler <> 'y';
set ccopt.enable_batch_scan = on;
begin;
declare backwards scroll cursor for select * from require_rows;
rollback;

-- Every node of the list is required, whatever the separator.
set ccopt.require = 'BatchScan, BatchAgg';
select count(*) from require_rows where filler <> 'y';
set ccopt.require = 'NoSuchNode';
select count(*) from require_rows where filler <> 'y';
-- A failed planning leaves no state.
set ccopt.require = 'BatchScan';
select count(*) from require_rows where filler <> 'y';
reset ccopt.require;
drop table require_rows;
