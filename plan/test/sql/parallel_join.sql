-- One hash table for all processes of a parallel plan: which joins have it, and that results equal core's, also where
-- memory is short, where processes do not come, and where a statement is cancelled.
set client_min_messages = warning;
create schema parallel_join;
set search_path = parallel_join;
\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/parallel_facts.sql'
\set ECHO none
\i :helpers
\set ECHO all
-- The lines of a plan about the joins, the scans below them, and their tables.
create function joins_of(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ '(BatchHashJoin|Shared Hash Table|Scan)' then return next line; end if;
  end loop;
end $$;
create function same(query text) returns text language sql as $$ select same_as_core(query, 'Shared Hash Table', 'shared') $$;

-- A table is divided; groups are read by one process.
set ccopt.force = on;
set enable_nestloop = off;
set parallel_tuple_cost = 0;
select joins_of('select count(*) from facts f join names n on n.k = f.k');
select joins_of('select count(g.n) from facts f join (select k, count(*) as n from names group by k) g on g.k = f.k');

-- Whether the first two are shared depends on the costs of PostgreSQL's version.
create function of_all() returns setof text language plpgsql as $$
begin
  return next 'inner: ' || replace(same('select f.id, g.t from facts f join facts g on g.id = f.k where g.v > 20'), ', shared', '');
  return next 'left: ' || replace(same('select f.id, g.t from facts f left join facts g on g.id = f.k and g.v < 90'), ', shared', '');
  return next 'semi: ' || same('select f.id from facts f where exists (select from facts g where g.k = f.id and g.v > 20)');
  return next 'anti: ' || same('select f.id from facts f where not exists (select from facts g where g.id = f.k and g.v > 20)');
  return next 'text key: ' || same('select count(*), sum(a.id - b.id) from facts a join facts b on a.t = b.t and a.v > b.v');
  return next 'number key: ' || same('select a.id, b.id, b.t from facts a join facts b on a.v = b.v and a.d = b.d');
  return next 'two keys: ' || same('select count(*), sum(a.v), max(b.t) from facts a join facts b on a.k = b.k and a.d = b.d');
  return next 'one frequent key: ' || same('select count(*) from facts a join facts b on a.k = b.k where a.k = 7 and b.t <> ''text 1''');
  return next 'grouped: ' || same('select count(*), sum(g.n), max(g.t) from facts f join (select k, count(*) as n, max(name) as t from names group by k) g on g.k = f.k');
  return next 'two joins: ' || same('select n.name, count(*), sum(b.v) from facts a join facts b on a.id = b.id join names n on n.k = b.k group by n.name');
  return next 'no inner row: ' || same('select f.id from facts f join facts g on g.id = f.id where g.v < 0');
  return next 'no inner row, left: ' || same('select f.id, g.v from facts f left join nothing g on g.k = f.id where f.id < 500');
  return next 'no outer row: ' || same('select f.id from facts f join facts g on g.id = f.id where f.v < 0');
end $$;
select of_all();
-- Files: the rows of all processes are beyond what these settings allow.
set work_mem = '64kB';
select of_all();
set hash_mem_multiplier = 1;
set work_mem = '200kB';
select of_all();
reset hash_mem_multiplier;
set work_mem = '16MB';
set parallel_leader_participation = off;
select of_all();
reset parallel_leader_participation;

-- Workers that do not come.
set plan_cache_mode = force_generic_plan;
prepare joined as select count(*), sum(n.weight), sum(a.v) from facts a join facts b on a.id = b.id join names n on n.k = b.k where a.v <> 'NaN';
set max_parallel_workers = 0;
execute joined;
set max_parallel_workers = 1;
execute joined;
reset max_parallel_workers;
execute joined;
set work_mem = '64kB';
execute joined;
set max_parallel_workers = 0;
execute joined;
reset max_parallel_workers;
set work_mem = '16MB';

-- Started again, and left early.
set enable_material = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set ccopt.force = off;
set ccopt.enable_batch_agg = off;
set enable_nestloop = on;
prepare again as select x, n from (select count(*) as n from facts a join facts b on a.id = b.id) s right join (values (1), (2), (3)) v (x) on true;
create function shown(query text, pattern text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ pattern then return next substring(line from pattern); end if;
  end loop;
end $$;
execute again;
select shown('execute again', 'Gather .*(loops=\d+)');
select shown('execute again', 'Shared Hash Table: .*|Inner Rows: .*');
-- The plan is for more memory than there is now.
set work_mem = '64kB';
execute again;
select shown('execute again', 'Gather .*(loops=\d+)');
select shown('execute again', 'Shared Hash Table: .*|Inner Rows: .*');
select shown('execute again', 'Not Shared Because: .*');
select count(*) as in_files from shown('execute again', 'Partitions: (?!1$)');
set work_mem = '16MB';
reset enable_material;
set ccopt.force = on;
select count(*) from (select a.id from facts a join facts b on a.id = b.id limit 5) s;
begin;
declare c no scroll cursor for select a.id from facts a join facts b on a.id = b.id;
move 3 in c;
move 3000 in c;
close c;
rollback;

-- An error while the table is built, and while it is probed; a statement that is cancelled: the next one works.
-- With files of all processes, too.
set work_mem = '64kB';
select pg_temp.fails('select count(*) from facts a join facts b on b.id = a.k where 1 / (b.id - 30000) < 5');
select pg_temp.fails('select count(*) from facts a join facts b on b.id = a.k where 1 / (a.id - 30000) < 5');
set statement_timeout = '300ms';
select pg_temp.fails('select count(*) from facts a join facts b on a.k = b.k join facts c on c.k = b.k');
reset statement_timeout;
set work_mem = '16MB';
execute joined;
-- No file is left behind.
select count(*) from pg_ls_dir('base/pgsql_tmp', true, false);
-- PostgreSQL's setting holds.
set enable_parallel_hash = off;
select count(*) as shared from shown('select count(*) from facts a join facts b on b.id = a.k', 'Shared Hash Table');
reset enable_parallel_hash;
select count(*) as shared from shown('select count(*) from facts a join facts b on b.id = a.k', 'Shared Hash Table');
drop schema parallel_join cascade;
