-- BatchScan and BatchHashJoin in parallel workers: which plans use them, and that results equal core's.
set client_min_messages = warning;
create schema parallel;
set search_path = parallel;
\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/parallel_facts.sql'
\set ECHO none
\i :helpers
\set ECHO all
-- Whether core returns the same rows, how many, and whether ccopt's plan has workers.
create function same(query text) returns text language sql as $$
  -- which plans have workers differs between versions of PostgreSQL here
  select same_as_core(query, case when current_setting('ccopt.force') = 'off' and query !~ 'full join' then 'Parallel Custom Scan' end, 'by workers')
$$;

-- ccopt's serial aggregation and join are off where the plan is shown: the test is not about costs of small tables.
set ccopt.enable_batch_agg = off;
select plan_of('select k, count(*), sum(v), max(t) from facts where d > date ''2000-06-01'' group by k');
select plan_of('select f.t, n.name from facts f join names n on n.k = f.k where f.v > 10 and n.weight < 50');
select plan_of('select count(*) from facts f where not exists (select from names n where n.k = f.k)');

-- All kinds of joins; those that return unmatched inner rows are never divided.
create function of_all() returns setof text language plpgsql as $$
begin
  return next 'scan: ' || same('select * from facts where v > 100 and t like ''%7%''');
  return next 'row filter: ' || same('select id, t from facts where length(t) = 7 and k < 100');
  return next 'expressions: ' || same('select id + k, upper(t) from facts where d between date ''2000-02-01'' and date ''2000-03-01''');
  return next 'aggregates: ' || same('select count(*), sum(v), avg(v), min(d), max(t), sum(k), avg(id) from facts');
  return next 'groups: ' || same('select k, count(*), sum(id), avg(k), min(t), max(d) from facts where v < 9000 group by k');
  return next 'nothing: ' || same('select count(*), sum(v) from nothing');
  return next 'no row: ' || same('select id from facts where v < 0');
  return next 'inner: ' || same('select f.id, n.name from facts f join names n on n.k = f.k where n.weight < 50');
  return next 'left: ' || same('select f.id, n.name from facts f left join names n on n.k = f.k and n.weight < 50');
  return next 'right: ' || same('select f.id, n.name from facts f right join names n on n.k = f.id');
  return next 'full: ' || same('select f.id, n.name from facts f full join names n on n.k = f.id');
  return next 'semi: ' || same('select f.id from facts f where exists (select from names n where n.k = f.k and n.weight > 20)');
  return next 'anti: ' || same('select f.id from facts f where not exists (select from names n where n.k = f.k)');
  return next 'in: ' || same('select f.id from facts f where f.k in (select n.k from names n where n.name like ''%7'')');
  return next 'three: ' || same('select n.name, m.name, count(*), sum(f.v) from facts f join names n on n.k = f.k join names m on m.k = f.k group by n.name, m.name');
  return next 'with itself: ' || same('select count(*), sum(a.v) from facts a join facts b on a.k = b.k and a.d = b.d');
  return next 'union: ' || same('select k from facts where v < 4000 union all select k from names');
  return next 'grouped inside: ' || same('select f.id, s.n, s.w from facts f join (select k, count(*) as n, sum(weight) as w from names group by k) s on s.k = f.k where f.v < 6000');
  return next 'subquery: ' || same('select id from facts where v > (select avg(v) from facts where t = ''text 3'' and v < 1000000) and k < 50');
end $$;
select of_all();
reset ccopt.enable_batch_agg;
set ccopt.force = on;
select of_all();
reset ccopt.force;
set parallel_leader_participation = off;
select of_all();
reset parallel_leader_participation;
set work_mem = '64kB';
set ccopt.force = on;
select of_all();
reset ccopt.force;
reset work_mem;

-- Rows that the transaction wrote, a serializable transaction, and a temporary table, which workers cannot read.
begin;
update facts set v = v + 1 where k = 3;
delete from facts where k = 4;
select same('select id, v from facts where k < 6');
rollback;
begin isolation level serializable;
select same('select id, v from facts where k < 6');
commit;
create temporary table mine as select * from facts;
analyze mine;
select same('select id from mine where k < 6');

-- Started again: each loop reads all rows.
set ccopt.enable_batch_agg = off;
set enable_material = off;
select plan_of('select x, n from (select count(id) as n from facts where k > 10) s right join (values (1), (2), (3)) v (x) on true');
select x, n from (select count(id) as n from facts where k > 10) s right join (values (1), (2), (3)) v (x) on true;
select same('select x, n from (select count(*) as n from facts f join names n on n.k = f.k) s right join (values (1), (2), (3)) v (x) on true');
reset enable_material;

-- The parent stops early.
select count(*) from (select id from facts where t like '%7%' limit 5) s;
begin;
declare c no scroll cursor for select f.id from facts f join names n on n.k = f.k;
move 3 in c;
close c;
rollback;

-- Workers were planned and none starts, or only one.
set plan_cache_mode = force_generic_plan;
prepare counted as select count(*), sum(k), max(t) from facts where d > date '2000-06-01';
prepare joined as select count(*), sum(n.weight) from facts f join names n on n.k = f.k;
execute counted;
execute joined;
select bool_or(line ~ 'Parallel Custom Scan') from (select plan_of('execute counted') as line) s;
select bool_or(line ~ 'Parallel Custom Scan') from (select plan_of('execute joined') as line) s;
set max_parallel_workers = 0;
execute counted;
execute joined;
set max_parallel_workers = 1;
execute counted;
execute joined;
reset max_parallel_workers;
execute counted;

-- Forced, a Gather costs nothing: a nested loop over it would start workers for each of its outer rows.
create function starts(query text) returns text language plpgsql as $$
declare
  line text; loops int := 0;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ 'Gather' then loops := greatest(loops, substring(line from 'loops=(\d+)')::int); end if;
  end loop;
  return format('a Gather is started %s times at most', loops);
end $$;
create table parts (k int, t text) partition by range (k);
create table parts_low partition of parts for values from (0) to (500);
create table parts_high partition of parts for values from (500) to (1000);
insert into parts select i, 'text ' || i from generate_series(0, 999) i;
analyze parts;
set parallel_tuple_cost = 0;
set ccopt.force = on;
set ccopt.enable_batch_join = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
select starts('select n.name, p.t from names n left join parts p on n.k = p.k');
select same('select n.name, p.t from names n left join parts p on n.k = p.k');
reset enable_mergejoin;
reset enable_hashjoin;
reset ccopt.enable_batch_join;
reset ccopt.force;
set parallel_tuple_cost = 0.001;

-- EXPLAIN ANALYZE shows the sums over all processes.
create function analyzed(query text) returns setof text language plpgsql as $$
declare
  line text; loops int; of_a_loop numeric;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ 'Parallel Custom Scan' then loops := substring(line from 'loops=(\d+)'); end if;
    if line ~ 'Removed by Vector' then
      of_a_loop := substring(line from ': (\d+)');
      return next format('rows removed, about: %s', round(of_a_loop * loops, -1));
    end if;
  end loop;
end $$;
select count(*) from facts where d <= date '2000-06-01';
select analyzed('execute counted');

-- An error in a worker or in the leader, and a statement that is cancelled: the next one works.
select pg_temp.fails('select count(1 / (id - 30000)) from facts where k >= 0');
set statement_timeout = '300ms';
select pg_temp.fails('select count(*) from facts a join facts b on a.k % 10 = b.k % 10 where a.v > 0 and b.t like ''text%''');
reset statement_timeout;
execute counted;
execute joined;
-- A plan without workers is not left to core for its look-ups by index if core's processes do as many between them:
-- below a Gather, the rows of a plan are those of one process.
create table wide (id int primary key, filler text);
insert into wide select i, repeat('x', 200) from generate_series(1, 120000) i;
create table labels (k int, name text);
insert into labels select i, 'name ' || i % 50 from generate_series(0, 40000) i;
vacuum analyze wide, labels;
reset all;
set client_min_messages = warning;
set search_path = parallel;
set enable_bitmapscan = off;
set min_parallel_table_scan_size = 0;
set max_parallel_workers_per_gather = 4;
set min_parallel_index_scan_size = 0;
set parallel_setup_cost = 300;
set parallel_tuple_cost = 0.04;
set work_mem = '64MB';
set enable_mergejoin = off;
set ccopt.margin = 2;
create function lines_with(pattern text) returns bigint language plpgsql as $$
declare
  line text; n bigint := 0;
begin
  for line in explain (costs off) select labels.name, count(distinct wide.id) from wide join labels on labels.k = wide.id group by labels.name loop
    n := n + (line ~ pattern)::int;
  end loop;
  return n;
end $$;
select lines_with('needs many look-ups') as refused, lines_with('BatchHashJoin') as batch;
set ccopt.enabled = off;
select lines_with('Gather') as with_workers, lines_with('Parallel Index Only Scan') as divided;
reset ccopt.enabled;
drop schema parallel cascade;
