-- AdaptiveJoin in parallel workers: one process builds the hash table, all use it, and results equal core's; also
-- where the table does not fit, where processes do not come, and where the workers are started again.
set client_min_messages = warning;
create schema parallel_adaptive;
set search_path = parallel_adaptive;
\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/parallel_facts.sql'
\set ECHO none
\i :helpers
\set ECHO all
create index names_k on names(k);
create index nothing_k on nothing(k);
-- Nested loops over indexes only; ccopt.force changes to the hash table at the first outer row of each process.
set enable_hashjoin = off;
set enable_mergejoin = off;
set enable_memoize = off;
set enable_material = off;
set ccopt.enable_batch_join = off;
set ccopt.enable_batch_agg = off;
set ccopt.force = on;
create function joins_of(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ '(Gather|AdaptiveJoin|Scan)' then return next line; end if;
  end loop;
end $$;
create function shown(query text, pattern text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ pattern then return next substring(line from pattern); end if;
  end loop;
end $$;
create function same(query text) returns text language sql as $$ select same_as_core(query, 'Parallel Custom Scan .AdaptiveJoin', 'in workers') $$;

select joins_of('select f.id, n.name from facts f join names n on n.k = f.k');
create function of_all() returns setof text language plpgsql as $$
begin
  return next 'inner: ' || same('select f.id, n.name from facts f join names n on n.k = f.k');
  return next 'left: ' || same('select f.id, n.name from facts f left join names n on n.k = f.k and n.weight < 30');
  return next 'semi: ' || same('select f.id from facts f where exists (select from names n where n.k = f.k and n.weight > 20)');
  return next 'anti: ' || same('select f.id from facts f where not exists (select from names n where n.k = f.k and n.weight > f.v)');
  return next 'unique key: ' || same('select a.id, b.t from facts a join facts b on b.id = a.k where a.v < 3000');
  return next 'no match: ' || same('select f.id, n.v from facts f join nothing n on n.k = f.k');
  return next 'two joins: ' || same('select f.id, n.name, g.t from facts f join names n on n.k = f.k join facts g on g.id = f.id');
  return next 'grouped: ' || same('select n.name, count(*), sum(f.v) from facts f join names n on n.k = f.k group by n.name');
end $$;
select of_all();
-- Each process decides by the time of its look-ups.
set ccopt.force = off;
select of_all();
set ccopt.force = on;
set parallel_leader_participation = off;
select of_all();
reset parallel_leader_participation;
-- The table does not fit, which the first that builds finds.
set work_mem = '64kB';
select of_all();
-- (EXPLAIN shows what the leader did.)
set max_parallel_workers = 0;
select shown('select count(b.t) from facts a join facts b on b.id = a.k', 'Not Hashed Because: .*');
reset max_parallel_workers;
set work_mem = '16MB';

-- Workers that do not come.
set plan_cache_mode = force_generic_plan;
prepare joined as select count(*), sum(n.weight) from facts f join names n on n.k = f.k;
set max_parallel_workers = 0;
execute joined;
set max_parallel_workers = 1;
execute joined;
reset max_parallel_workers;
execute joined;

-- Left early, cancelled, and an error while the table is built and used: the next statement works.
select count(*) from (select f.id from facts f join names n on n.k = f.k limit 5) s;
begin;
declare c no scroll cursor for select f.id from facts f join names n on n.k = f.k;
move 3 in c;
move 3000 in c;
close c;
rollback;
select pg_temp.fails('select count(*) from facts f join names n on n.k = f.k where 1 / (f.id - 30000) < 5');
select pg_temp.fails('select count(*) from facts f join names n on n.k = f.k where 1 / (f.id - n.k - 30000) < 5');
set statement_timeout = '200ms';
select pg_temp.fails('select count(*) from facts a join facts b on b.k = a.k join facts c on c.k = b.k');
reset statement_timeout;
execute joined;

-- The Gather starts again, with the table of before: built once for three runs of all processes.
set ccopt.force = off;
prepare again as select x, n from (select count(n.weight) as n from facts f join names n on n.k = f.k) s right join (values (1), (2), (3)) v (x) on true;
execute again;
select shown('execute again', 'Gather .*(loops=\d+)');
select shown('execute again', 'BatchScan. on names.*(loops=\d+)');
drop schema parallel_adaptive cascade;
