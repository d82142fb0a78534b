-- ccopt_stats counts the work of a node that ran.
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.buffer = off;
set max_parallel_workers_per_gather = 0;
create table stats_rows (k int not null, filler text not null);
insert into stats_rows select i, repeat('x', 50) from generate_series(1, 20000) i;
vacuum analyze stats_rows;
set ccopt.force = on;

select ccopt.ccopt_stats_reset();
explain (costs off) select count(*) from stats_rows where k <= 100;
select node, uses, batches from ccopt.ccopt_stats;  -- EXPLAIN runs nothing
select count(*) from stats_rows where k <= 100;
select count(*) from stats_rows where k <= 10;
select node, uses, batches between 2 * 20 and 2 * 200 as batches, rows_in, rows_out, odd_rows, fallbacks, spills
from ccopt.ccopt_stats where node = 'BatchScan';
select distinct scope in ('server', 'session') as scope_known from ccopt.ccopt_stats;

-- Only the fallback row goes through core's functions.
create table stats_odd (n numeric(6,2), filler text);
insert into stats_odd select i, repeat('x', 50) from generate_series(1, 5000) i;
insert into stats_odd values ('NaN', 'odd');
vacuum analyze stats_odd;
select ccopt.ccopt_stats_reset();
select count(*) from stats_odd where n > 4000;
select uses, rows_in, rows_out, odd_rows from ccopt.ccopt_stats where node = 'BatchScan';

-- A failed statement is not counted.
select ccopt.ccopt_stats_reset();
select 1 / (k - k) from stats_rows where k = 7;
select uses from ccopt.ccopt_stats where node = 'BatchScan';

-- All users may read the view; resetting needs a right.
create role stats_reader;
set role stats_reader;
select count(*) from ccopt.ccopt_stats;
select ccopt.ccopt_stats_reset();
reset role;
drop role stats_reader;
drop table stats_rows, stats_odd;
