-- Which path wins with the built-in constants. Only plans are compared, not costs.
set max_parallel_workers_per_gather = 0;
set jit = off;
set ccopt.buffer = off;
set random_page_cost = 1.1;
set work_mem = '64MB';
create table costs_rows (k int primary key, day date not null, v numeric(12,2) not null, a int not null, filler text not null);
-- Days are scattered over the table.
insert into costs_rows
select i, date '1992-01-01' + (i * 7919 % 2500), i % 5000 / 100.0, i % 50, repeat('x', 40) from generate_series(1, 100000) i;
create index on costs_rows (day);
vacuum analyze costs_rows;

-- The node that reads the table.
create function pg_temp.reads(query text) returns text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ 'costs_rows' then return substring(line from '(BatchScan|Bitmap Heap Scan|Index Only Scan|Index Scan|Seq Scan)'); end if;
  end loop;
end $$;
create function pg_temp.total_cost(query text) returns float8 language plpgsql as $$
declare
  plan json;
begin
  execute 'explain (format json) ' || query into plan;
  return plan #>> '{0,Plan,Total Cost}';
end $$;

-- Whole tables.
select pg_temp.reads('select k from costs_rows where a = 3');
select pg_temp.reads('select k from costs_rows where v < 1 and a <> 4');
select pg_temp.reads('select k from costs_rows where day < date ''1997-01-01''');
-- One row, a thousandth, a twenty-fifth by an index: core's plan remains.
select pg_temp.reads('select v from costs_rows where k = 77');
select pg_temp.reads('select v from costs_rows where day between date ''1993-01-01'' and date ''1993-01-03''');
select pg_temp.reads('select sum(v) from costs_rows where day >= date ''1993-01-01'' and day < date ''1993-04-07''');
-- The index gives the order, and one row is enough.
select pg_temp.reads('select k from costs_rows order by k limit 5');
-- A margin that no path reaches.
set ccopt.margin = 1000;
select pg_temp.reads('select k from costs_rows where a = 3');
reset ccopt.margin;
set enable_seqscan = off;
select pg_temp.reads('select k from costs_rows where day < date ''1997-01-01''');
reset enable_seqscan;

-- Below core's for the same, and never below what the pages cost.
select relpages > 1000 as large from pg_class where relname = 'costs_rows';
create temp table costs_of as
select a.attempt,
       pg_temp.total_cost(a.query) as ours,
       (set_config('ccopt.enabled', 'off', false), pg_temp.total_cost(a.query))::text as stock,
       set_config('ccopt.enabled', 'on', false) as restored
from (values (1, 'select k from costs_rows where a = 3'), (2, 'select k from costs_rows where a = 3 and v > 5'),
             (3, 'select k from costs_rows where a <> 3 and v > 5 and filler <> ''y''')) as a(attempt, query);
select attempt, ours >= pages.relpages as pages_paid, ours < substring(stock from ',([0-9.]+)')::float8 as below_stock
from costs_of, (select relpages from pg_class where relname = 'costs_rows') pages order by attempt;
-- More work never costs less.
select bool_and(more >= less) as monotone from
  (select ours as more, lag(ours) over (order by attempt) as less from costs_of) c where less is not null;

-- If core's cost per row rises, ccopt's rises too: both use one scale.
set ccopt.force = off;
select pg_temp.total_cost('select k from costs_rows where a = 3') as at_default \gset
set cpu_tuple_cost = 0.1;
select pg_temp.total_cost('select k from costs_rows where a = 3') > :at_default as follows_settings;
reset cpu_tuple_cost;
drop table costs_rows;

-- Workers. Core drops the partial path of a join that loses to a path without workers there, though it would win further
-- up: ccopt's cheap joins must not hide whole plans with workers that cost less. ccopt's joins have workers too.
create table costs_part (k int primary key, name text not null);
insert into costs_part select i, 'part ' || i % 100 || repeat('x', 100) from generate_series(1, 20000) i;
create table costs_supplies (k int not null, s int not null, price numeric(8,2) not null, filler text not null);
insert into costs_supplies select i % 20000 + 1, i, i % 1000, repeat('x', 130) from generate_series(1, 80000) i;
create table costs_lines (k int not null, s int not null, quantity numeric(8,2) not null, filler text not null);
insert into costs_lines select i * 7 % 20000 + 1, i * 7 % 80000, i % 50, repeat('x', 200) from generate_series(1, 200000) i;
create index on costs_lines (k, s);
vacuum analyze costs_part;
vacuum analyze costs_supplies;
vacuum analyze costs_lines;
set ccopt.enable_adaptive_join = off;
set enable_bitmapscan = off;
set random_page_cost = 4;
set parallel_setup_cost = 0;
create function pg_temp.of_parts() returns text language sql as $$
  select 'select sum(price * quantity) from costs_part p, costs_supplies c, costs_lines l
  where p.k = c.k and l.k = c.k and l.s = c.s and name like ''%part 7%''' $$;
create function pg_temp.has_node(query text, node text) returns boolean language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ ('-> .*' || node) then return true; end if;
  end loop;
  return false;
end $$;
select pg_temp.has_node(pg_temp.of_parts(), 'BatchHashJoin') as ours;
set max_parallel_workers_per_gather = 2;
select pg_temp.has_node(pg_temp.of_parts(), 'BatchHashJoin') as ours, pg_temp.has_node(pg_temp.of_parts(), 'Gather') as workers;
select pg_temp.total_cost(pg_temp.of_parts()) as ours \gset
set ccopt.enabled = off;
select :ours <= pg_temp.total_cost(pg_temp.of_parts()) as not_above_stock;
reset ccopt.enabled;
drop table costs_part, costs_supplies, costs_lines;

-- Rows that come in order from an index are grouped without a table; where they have to be sorted, BatchAgg does it.
reset max_parallel_workers_per_gather;
set max_parallel_workers_per_gather = 0;
set random_page_cost = 1.1;
create table costs_keys (k int primary key, other int not null, filler text not null);
insert into costs_keys select i, i * 7919 % 200003, repeat('x', 60) from generate_series(1, 200000) i;
vacuum analyze costs_keys;
explain (costs off) select k, count(*) from costs_keys group by k;
explain (costs off) select other, count(*) from costs_keys group by other;
select count(*), sum(n), min(k), max(k) from (select k, count(*) as n from costs_keys group by k) s;
-- No BatchAgg for at most fifty rows from an index, with or without EXPLAIN.
create table costs_none (a int, v numeric(12,2));
vacuum analyze costs_none;
explain (costs off) select count(*), sum(other) from costs_keys where k between 1000 and 1049;
explain (costs off) select count(*), sum(a), avg(v) from costs_none;
set plan_cache_mode = force_generic_plan;
prepare fifty as select count(*), sum(other), min(k) from costs_keys where k between 1000 and 1049;
prepare none as select count(*), sum(a), avg(v) from costs_none;
prepare every as select count(*), sum(other), min(k) from costs_keys;
execute fifty;
execute none;
execute every;
explain (costs off) execute fifty;
explain (costs off) execute none;
explain (costs off) execute every;
drop table costs_keys, costs_none;
