-- BatchAgg in parallel workers: core combines its groups in the leader, and results equal core's.
set client_min_messages = warning;
create schema parallel_agg;
set search_path = parallel_agg;
\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/parallel_facts.sql'
\set ECHO none
\i :helpers
\set ECHO all
-- Whether core returns the same rows, how many, and whether ccopt's plan has workers.
create function same(query text) returns text language sql as $$ select same_as_core(query, 'Parallel Custom Scan', 'by workers') $$;

-- BatchAgg in workers: they return core's transition states, which Finalize Aggregate combines. Wide sums, values
-- that are not numbers, groups that only one process reads, and groups without a value.
create table sums (id int, g int, small smallint, whole int, wide bigint, amount numeric(14,3), odd numeric(10,2), day date, ts timestamp, at timestamptz, o oid);
insert into sums select i, i % 7, i % 100 - 50, i * 31 - 900000, 9000000000000000000 - i, i / 8.0 - 3000, i / 4.0, date '2000-01-01' + i, timestamp '2000-01-01' + i * interval '1 minute', timestamptz '2000-01-01 00:00+00' + i * interval '1 minute', i from generate_series(1, 50000) i;
update sums set odd = 'NaN' where g = 1 and id % 1000 = 8;
update sums set odd = null, amount = null, wide = null, whole = null, small = null, day = null where g = 2;
insert into sums select 60000 + i, 100 + i, 1, 1, 1, 0.001, 'NaN' from generate_series(1, 3) i;
analyze sums;
create function aggregated() returns setof text language plpgsql as $$
declare
  list text := 'count(*), count(wide), sum(small), sum(whole), sum(wide), sum(amount), sum(odd), avg(small), avg(whole), avg(wide), avg(amount), avg(odd), min(small), max(whole), min(wide), max(wide), min(amount), max(odd), min(odd), min(day), max(ts), max(at), min(o)';
begin
  return next 'plain: ' || same('select ' || list || ' from sums');
  return next 'groups: ' || same('select g, ' || list || ' from sums group by g');
  return next 'many groups: ' || same('select id % 20000, ' || list || ' from sums group by id % 20000');
  return next 'wide groups: ' || same('select wide, sum(wide), avg(amount), sum(odd) from sums group by wide');
  return next 'of nothing: ' || same('select ' || list || ' from sums where id < 0');
  return next 'no groups: ' || same('select g, ' || list || ' from sums where id < 0 group by g');
  return next 'one row: ' || same('select ' || list || ' from sums where id = 7');
  return next 'nulls only: ' || same('select ' || list || ' from sums where g = 2');
  return next 'filter: ' || same('select g, sum(wide) filter (where id < 100), avg(amount) filter (where id < 0), count(*) filter (where odd > 100), min(day) filter (where g > 3) from sums group by g');
  return next 'case: ' || same('select g, sum(case when id % 2 = 0 then amount else 1 end), sum(case when g = 3 then odd end), avg(case when g < 3 then wide end) from sums group by g');
  return next 'expressions: ' || same('select g + 1, sum(amount * (1 - odd)), avg(whole + 1), sum(wide) / 2 + count(*) from sums group by g + 1');
  return next 'having: ' || same('select g, sum(amount) from sums group by g having sum(amount) > 3000 and count(*) > 10 order by g');
  return next 'order: ' || same('select g, count(*) from sums group by g order by count(*) desc, g limit 3');
  return next 'join: ' || same('select n.name, sum(s.amount), avg(s.odd), count(*) from sums s join names n on n.k = s.g group by n.name');
end $$;
select plan_of('select g, sum(amount), avg(wide) from sums group by g');
select plan_of('select sum(amount), count(*) from sums where id > 30');
select aggregated();
-- Core's aggregation over ccopt's scans; ccopt's over core's scans; both by ccopt.
set ccopt.enable_batch_scan = off;
set ccopt.force = on;
select plan_of('select g, sum(amount) from sums group by g');
select aggregated();
reset ccopt.enable_batch_scan;
select aggregated();
-- Groups beyond the memory of a process.
set work_mem = '64kB';
select 'many groups: ' || same('select id % 20000, count(*), sum(wide), avg(amount), sum(odd) from sums group by id % 20000');
set work_mem = '16MB';
set parallel_leader_participation = off;
select aggregated();
reset parallel_leader_participation;
set max_parallel_workers = 0;
select aggregated();
reset max_parallel_workers;
reset ccopt.force;
-- Each rescan divides the pages again: a process keeps nothing from the scan before.
set enable_material = off;
select plan_of('select x, n, s from (select count(*) as n, sum(amount) as s from sums where id > 10) q right join (values (1), (2), (3), (4)) v (x) on true');
select same('select x, n, s from (select count(*) as n, sum(amount) as s from sums where id > 10) q right join (values (1), (2), (3), (4)) v (x) on true');
select same('select x, g, s from (select g, sum(wide) as s from sums group by g) q right join (values (1), (2), (3), (4)) v (x) on x = g');
reset enable_material;
-- ccopt divides only what core divides.
select plan_of('select g, array_agg(id order by id) from sums group by g');
set ccopt.enable_batch_agg = off;
select plan_of('select g, sum(amount) from sums group by g');

-- An error in a process, and a statement that is cancelled: the next one works.
reset ccopt.enable_batch_agg;
set ccopt.force = on;
select pg_temp.fails('select g, sum(whole * whole) from sums group by g');
select pg_temp.fails('select sum(amount / (id - 30000)) from sums');
set statement_timeout = '200ms';
select pg_temp.fails('select a.g, sum(a.amount) from sums a join sums b on a.g = b.g group by a.g');
reset statement_timeout;
select plan_of('select g, sum(amount) from sums group by g');
select same('select g, sum(amount) from sums group by g');
drop schema parallel_agg cascade;
