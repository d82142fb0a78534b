-- Shapes: a ccopt plan that proves slower is left to core, and used again when it is no longer slower. How: the
-- settings make CPU time almost free and index pages very expensive for ccopt, which therefore reads a whole table
-- for thirty rows; that takes some fifty times as long as the index.
\set VERBOSITY terse
set client_min_messages = error;
set max_parallel_workers_per_gather = 0;
set jit = off;
set ccopt.shapes = suspects;
set seq_page_cost = 0;
set random_page_cost = 100;
create table shape_rows (k int not null, v int not null, filler text not null);
insert into shape_rows select i % 10000, i, repeat('x', 20) from generate_series(1, 300000) i;
create index shape_rows_k on shape_rows (k);
vacuum analyze shape_rows;
insert into ccopt.calibration
select trim(coalesce(substring(cpu from 'model name[^:]*: *([^\n]*)'), substring(cpu from 'CPU part[^:]*: *([^\n]*)'), 'unknown')),
       current_setting('server_version'), '0.1', 'ns_per_unit', 300
from pg_read_file('/proc/cpuinfo') cpu;
alter table ccopt.calibration set (fillfactor = 80);
select value, source from ccopt.ccopt_constants where name = 'ns_per_unit';

create function pg_temp.plan_of(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    continue when line !~ 'shape_rows|pinned';
    line := regexp_replace(line, '^ *(-> *)?', '');
    return next regexp_replace(line, '[0-9.]+x over n=[0-9]+', 'Nx over n=N');
  end loop;
end $$;
create function pg_temp.repeat(query text, times int) returns void language plpgsql as $$
begin
  for i in 1 .. times loop execute query; end loop;
end $$;
create view pg_temp.known as
select state, ratio > 3 as slower, pairs, runs, stock_runs, mean_ms > stock_mean_ms as longer, query from ccopt.ccopt_shapes order by query;
select ccopt.ccopt_shapes_reset() >= 0;

-- Not for one execution or two, and not for EXPLAIN.
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 5');
select * from pg_temp.known;
select pg_temp.repeat('select count(v) from shape_rows where k = 5', 3);
select state, pairs, runs, stock_runs from pg_temp.known;
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 5');
-- After three trials, with two executions between, the verdict is known. The constant does not matter.
select pg_temp.repeat('select count(v) from shape_rows where k = ' || k, 1) from generate_series(5, 11) k;
select * from pg_temp.known;
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 77');
select count(v) from shape_rows where k = 77;
select stock_runs > 3 as by_core, runs from pg_temp.known;
create function pg_temp.remark(query text) returns text language plpgsql as $$
declare
  plan json;
begin
  execute 'explain (format json) ' || query into plan;
  return substring(plan #>> '{1,Statement}' from '(.*): ');
end $$;
select pg_temp.remark('select count(v) from shape_rows where k = 5');

-- If shapes are switched off, verdicts do not apply. A required node is used in any case.
set ccopt.shapes = off;
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 5');
set ccopt.shapes = suspects;
set ccopt.require = 'BatchScan';
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 5');
reset ccopt.require;
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 5');

-- The index is dropped: core also reads the table, and is slower.
drop index shape_rows_k;
select pg_temp.repeat('select count(v) from shape_rows where k = 5', 14);
select state, pairs from pg_temp.known;
select * from pg_temp.plan_of('select count(v) from shape_rows where k = 5');
create index shape_rows_k on shape_rows (k);

-- A cached plan is replanned when the verdict changes.
select ccopt.ccopt_shapes_reset();
set plan_cache_mode = force_generic_plan;
prepare kept(int) as select count(v) from shape_rows where k = $1;
select * from pg_temp.plan_of('execute kept(5)');
select pg_temp.repeat('execute kept(5)', 12);
select state, slower, pairs from pg_temp.known;
select * from pg_temp.plan_of('execute kept(5)');
reset plan_cache_mode;
deallocate kept;

-- Failed and cancelled executions are not measured.
select ccopt.ccopt_shapes_reset();
select pg_temp.repeat('select max(1 / (v - v)) from shape_rows where k = 5', 1);
select sum(runs) as runs from pg_temp.known;
set statement_timeout = 1;
select count(*) from shape_rows a, shape_rows b where a.filler = b.filler;
reset statement_timeout;
select sum(runs) as runs from pg_temp.known;

-- A faster plan stays, for all users.
select ccopt.ccopt_shapes_reset();
set ccopt.shapes = every;
select pg_temp.repeat('select k % 10, sum(v), min(v), max(v) from shape_rows group by 1', 12);
select state from pg_temp.known;
set ccopt.shapes = suspects;

-- The table is full: the least recently used shapes are evicted.
create table shape_few as select i as k, repeat('x', 50) as filler from generate_series(1, 20000) i;
vacuum analyze shape_few;
do $$
begin
  for i in 1 .. 260 loop execute 'select count(*)' || repeat(', count(k)', i) || ' from shape_few where k > 5'; end loop;
end $$;
select count(*) from ccopt.ccopt_shapes;
select count(*) from ccopt.ccopt_shapes where query ~ '^select k % 10';

-- All users may read the view, each the text of his own statements; resetting needs a right.
create role shapes_reader;
set role shapes_reader;
select count(*) as shapes, count(query) as texts from ccopt.ccopt_shapes;
select ccopt.ccopt_shapes_reset();
reset role;
drop role shapes_reader;
select ccopt.ccopt_shapes_reset();
delete from ccopt.calibration;
alter table ccopt.calibration reset (fillfactor);
drop table shape_rows, shape_few;
