-- Buffers at work: same answers in all modes, slow start, rescans, prepared plans, cancel.
\set VERBOSITY terse
set max_parallel_workers_per_gather = 0;
set jit = off;
set ccopt.enable_batch_scan = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.enable_batch_window = off;
set ccopt.enable_adaptive_join = off;

create temp table facts (id integer primary key, grp integer, flag boolean, amount numeric(12,2), note text, arr integer[]);
insert into facts
select i, i % 37, case when i % 5 > 0 then i % 3 = 0 end, i / 100.0,
       case when i % 11 > 0 then repeat('x' || i, i % 50) end, case when i % 7 > 0 then array[i, i % 7, null] end
from generate_series(1, 5000) i;
-- Large values that are stored elsewhere, a column added later, one dropped.
update facts set note = (select string_agg(md5(i::text), '') from generate_series(id, id + 100) i) where id % 500 = 0;
alter table facts add column added integer default 42;
alter table facts drop column flag;
update facts set added = id where id % 2 = 0;
create index on facts (grp);
create temp table groups (grp integer, name text);
insert into groups select i, 'group ' || i from generate_series(0, 39) i;
vacuum analyze facts;
vacuum analyze groups;

create temp table queries (name text, query text);
insert into queries values
('scan and aggregate', 'select grp, count(*), sum(amount), avg(amount), min(note), max(id) from facts group by grp'),
('sort', 'select * from facts order by grp, id'),
('sort of texts', 'select id, note || grp as computed from facts where note is not null order by computed, id'),
('hash join', 'select f.id, f.arr, g.name from facts f join groups g using (grp) where f.id % 3 = 0'),
('outer join', 'select f.id, f.note, g.name from groups g left join facts f on f.grp = g.grp and f.id < 1000'),
('semi join', 'select * from groups g where exists (select from facts f where f.grp = g.grp and f.added = 42)'),
('anti join', 'select * from groups g where not exists (select from facts f where f.grp = g.grp)'),
('index only', 'select count(*), sum(grp) from (select grp from facts where grp between 3 and 9 order by grp) f'),
('window', 'select id, sum(amount) over (partition by grp order by id) from facts where id < 700'),
('distinct', 'select distinct grp, arr[2] from facts'),
('set operation', 'select grp from facts except select grp from groups where grp > 20'),
('append', 'select id, note from facts where id < 10 union all select grp, name from groups'),
('subquery', 'select g.grp, (select max(f.id) from facts f where f.grp = g.grp) from groups g'),
('lateral', 'select g.name, f.id from groups g, lateral (select id from facts where facts.grp = g.grp order by amount desc limit 3) f'),
('array subquery', 'select g.grp, array(select f.id from facts f where f.grp = g.grp and f.id < 200 order by 1) from groups g'),
('recursive', 'with recursive r(n) as (select 1 union all select r.n + 1 from r join groups g on g.grp = r.n) select * from r'),
('limited', 'select f.id, g.name from facts f join groups g using (grp) order by f.id limit 10 offset 4990'),
('whole rows', 'select f from facts f where f.id > 4900'),
('system columns', 'select f.ctid, f.tableoid = ''facts''::regclass, f.id from facts f join groups g using (grp) where f.id < 100'),
('records', 'select (r).name, r from (select g as r from groups g offset 0) s order by 1'),
('grouping sets', 'select grp % 5, added % 2, count(*), sum(id) from facts group by grouping sets ((1), (2), ())'),
('values', 'select v.x, g.name from (values (1), (2), (null), (3)) v(x) left join groups g on g.grp = v.x'),
('functions', 'select s, g.name from generate_series(1, 3000) s join groups g on g.grp = s % 50'),
('cte', 'with c as materialized (select grp, count(*) as n from facts group by grp) select * from c a join c b on a.n = b.n and a.grp < b.grp'),
('full join', 'select a.grp, b.grp, b.name from (select distinct grp from facts) a full join groups b on a.grp = b.grp');

-- The rows of a query as one number, whatever their order.
create function pg_temp.fingerprint(query text) returns text language plpgsql as $$
declare
  answer text;
begin
  execute 'select count(*) || '' rows '' || coalesce(sum(hashtextextended(q::text, 0)), 0) from (' || query || ') q' into answer;
  return answer;
end $$;
create function pg_temp.buffers(query text) returns bigint language plpgsql as $$
declare
  line text;
  found bigint := 0;
begin
  for line in execute 'explain ' || query loop
    found := found + (line ~ 'Custom Scan \(Buffer\)')::integer;
  end loop;
  return found;
end $$;

set ccopt.buffer = off;
create temp table stock as select name, pg_temp.fingerprint(query) as answer from queries;
set ccopt.buffer = force;
-- Each plan has a buffer, except those whose scan depends on a parameter, is the whole plan, or evaluates an
-- expression that can fail.
select name from queries where pg_temp.buffers(query) = 0;

create procedure pg_temp.compare(how text) language plpgsql as $$
declare
  q record;
  answer text;
  different integer := 0;
begin
  for q in select * from queries join stock using (name) loop
    answer := pg_temp.fingerprint(q.query);
    if answer <> q.answer then
      raise notice '%: % has %, not %', how, q.name, answer, q.answer;
      different := different + 1;
    end if;
  end loop;
  raise notice '%: % of % differ', how, different, (select count(*) from queries);
end $$;
call pg_temp.compare('ring');
set ccopt.buffer_rows = 1;
call pg_temp.compare('ring of one');
set ccopt.buffer_rows = 3;
call pg_temp.compare('ring of three');
set ccopt.buffer_mode = copy;
call pg_temp.compare('copies of three');
reset ccopt.buffer_rows;
call pg_temp.compare('copies');
set work_mem = 64; -- rows beyond this are not buffered
call pg_temp.compare('copies in little memory');
set ccopt.buffer_mode = ring;
call pg_temp.compare('ring in little memory');
reset work_mem;
set enable_hashjoin = off;
call pg_temp.compare('ring, no hash join');
set enable_mergejoin = off;
call pg_temp.compare('ring, nested loops');
set enable_material = off;
set enable_memoize = off;
call pg_temp.compare('ring, bare nested loops');
reset enable_material;
reset enable_memoize;
reset enable_hashjoin;
reset enable_mergejoin;
set enable_hashagg = off;
call pg_temp.compare('ring, sorted groups');
reset enable_hashagg;
set enable_seqscan = off;
call pg_temp.compare('ring, index scans');
set enable_indexscan = off;
call pg_temp.compare('ring, bitmap scans');
reset enable_seqscan;
reset enable_indexscan;

-- Slow start: 8 rows, 16, 32 ...; a LIMIT above bounds the number of unused rows.
create function pg_temp.rows_read(query text, node text) returns bigint language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ node then
      return substring(line from 'rows=(\d+)');
    end if;
  end loop;
end $$;
set enable_mergejoin = off;
set enable_nestloop = off;
select pg_temp.rows_read('select f.id, g.name from facts f left join groups g using (grp) limit 1', 'Seq Scan on facts');
select pg_temp.rows_read('select f.id, g.name from facts f left join groups g using (grp) limit 9', 'Seq Scan on facts');
select pg_temp.rows_read('select f.id, g.name from facts f left join groups g using (grp) limit 30', 'Seq Scan on facts');
select pg_temp.rows_read('select exists (select from facts f left join groups g using (grp))', 'Seq Scan on facts');
reset enable_mergejoin;
reset enable_nestloop;
-- Each rescan starts slowly.
set enable_mergejoin = off;
set enable_material = off;
set enable_indexscan = off;
set enable_indexonlyscan = off;
set enable_bitmapscan = off;
select pg_temp.rows_read('select g.grp, l.id from groups g, lateral (select f.id from facts f join (select grp from groups offset 0) h on h.grp = f.grp where h.grp >= g.grp and g.grp < 4 limit 3) l', 'Seq Scan on facts.*loops=4');
select count(*), min(l.id), max(l.id) from groups g, lateral (select f.id from facts f join (select grp from groups offset 0) h on h.grp = f.grp where h.grp >= g.grp limit 3) l;
reset enable_mergejoin;
reset enable_material;
reset enable_indexscan;
reset enable_indexonlyscan;
reset enable_bitmapscan;

-- Prepared: a generic plan is copied, kept and run again.
prepare by_group(integer) as
  select f.grp, count(*), max(g.name) from facts f join groups g using (grp) where f.grp < $1 group by f.grp order by 1;
set plan_cache_mode = force_generic_plan;
select pg_temp.buffers('execute by_group(3)') > 0 as buffered;
execute by_group(3);
execute by_group(2);
set ccopt.buffer = off;
-- The setting counts at planning time.
execute by_group(1);
alter table facts add column later text default 'late';
execute by_group(2);
set ccopt.buffer = force;
deallocate by_group;
reset plan_cache_mode;

-- In functions: portals of PL/pgSQL, stopped halfway.
create function pg_temp.first_of(wanted integer) returns text language plpgsql as $$
declare
  r record;
  seen text := '';
begin
  for r in select f.id, g.name from facts f join groups g using (grp) where f.id > wanted order by f.id loop
    seen := seen || r.id || ' ' || r.name || '; ';
    exit when r.id >= wanted + 2;
  end loop;
  return seen;
end $$;
select pg_temp.first_of(7), pg_temp.first_of(4000);

-- An error in the middle: pins go with the transaction, and the table can be dropped or truncated.
select sum(100 / (id - 4000)) from (select f.id, g.name from facts f join groups g using (grp)) j;
begin;
declare held no scroll cursor with hold for select f.id, f.note from facts f join groups g using (grp) where f.id < 30;
fetch 2 from held;
commit;
fetch 2 from held;
close held;
begin;
declare halfway no scroll cursor for select f.id from facts f join groups g using (grp);
fetch 1 from halfway;
savepoint s;
select 1 / 0;
rollback to s;
fetch 1 from halfway;
commit;

-- Cancelled while it fills.
set statement_timeout = '200ms';
select count(*) from generate_series(1, 2000000000) s join groups g on g.grp = s;
reset statement_timeout;
truncate facts;
select count(*) from facts f join groups g using (grp);
