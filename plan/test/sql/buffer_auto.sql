-- Buffers that prefetch hash tables or sort look-up keys, and filters from finished hash tables: where they are
-- placed, how they behave when estimates are wrong, and that results do not change.
\set VERBOSITY terse
set max_parallel_workers_per_gather = 0;
set jit = off;
set work_mem = '64MB';
set ccopt.enable_batch_scan = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.enable_batch_window = off;
set ccopt.enable_adaptive_join = off;

-- 130,000 rows look up 100,000 others, in no order; both tables are larger than 8 MB with their indexes.
create temp table inner_rows (id integer, big bigint, day date, filler text);
insert into inner_rows select i, i * 1000000000::bigint, date '2000-01-01' + i, repeat('f', 60) from generate_series(1, 100000) i;
create temp table outer_rows (id integer, ref integer, refbig bigint, refwide bigint, refday date, amount numeric(10,2), noise float8);
insert into outer_rows
select i, r, r * 1000000000::bigint, r, date '2000-01-01' + r, i / 100.0, i / 7.0
from (select i, case when i % 1000 > 0 then ((i * 79199::bigint) % 130000)::integer end as r from generate_series(1, 130000) i) s;
create index on inner_rows (id);
create index on inner_rows (big);
create index on inner_rows (day);
vacuum analyze inner_rows;
vacuum analyze outer_rows;

create function pg_temp.shape(query text, analyzed boolean default false) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in select public.plan_lines(query, 'costs off' || case when analyzed then ', analyze, timing off, summary off' else '' end) loop
    if line ~ '->|^\S|Purpose|Passed Through|Bloom' then
      return next regexp_replace(regexp_replace(line, ' using .*? on', ' on'), ' \(actual.*', '');
    end if;
  end loop;
end $$;
-- The same with ccopt.buffer = off? Sums over all rows and columns, so that order does not matter.
create procedure pg_temp.check(query text) language plpgsql as $$
declare
  stock text;
  answer text;
begin
  perform set_config('ccopt.buffer', 'off', true), set_config('ccopt.enable_bloom', 'off', true);
  execute 'select count(*) || '' '' || coalesce(sum(hashtextextended(q::text, 0)), 0) from (' || query || ') q' into stock;
  perform set_config('ccopt.buffer', 'auto', true), set_config('ccopt.enable_bloom', 'on', true);
  execute 'select count(*) || '' '' || coalesce(sum(hashtextextended(q::text, 0)), 0) from (' || query || ') q' into answer;
  raise notice '%: %', case when answer = stock then 'same' else 'DIFFERENT' end, split_part(answer, ' ', 1) || ' rows';
end $$;

-- ---- hash joins ----
set enable_nestloop = off;
set enable_mergejoin = off;
select pg_temp.shape('select sum(amount), max(i.filler) from outer_rows o join inner_rows i on o.ref = i.id', true);
call pg_temp.check('select o.*, i.filler from outer_rows o join inner_rows i on o.ref = i.id');
call pg_temp.check('select o.*, i.filler from outer_rows o left join inner_rows i on o.ref = i.id');
call pg_temp.check('select o.*, i.day from outer_rows o full join inner_rows i on o.ref = i.id');
call pg_temp.check('select o.* from outer_rows o where o.ref in (select id from inner_rows)');
call pg_temp.check('select o.* from outer_rows o where not exists (select from inner_rows i where i.id = o.ref)');
call pg_temp.check('select o.*, i.filler from outer_rows o join inner_rows i on o.refbig = i.big');
call pg_temp.check('select o.*, i.filler from outer_rows o join inner_rows i on o.refday = i.day and o.ref = i.id');
call pg_temp.check('select o.*, i.filler from outer_rows o join inner_rows i on o.refwide = i.id');
-- Not for a text key, not for an expression, not with several batches.
select pg_temp.shape('select count(*) from outer_rows o join inner_rows i on o.refday::text = i.filler');
select pg_temp.shape('select max(i.filler) from outer_rows o join inner_rows i on o.ref + 1 = i.id');
set work_mem = '1MB';
select pg_temp.shape('select max(i.filler) from outer_rows o join inner_rows i on o.ref = i.id');
set work_mem = '64MB';
-- The planner expects 100,000 rows; there are two: the buffer checks once the table exists.
create temp table gone as table inner_rows;
analyze gone;
delete from gone where id > 2;
select pg_temp.shape('select max(i.filler) from outer_rows o join gone i on o.ref = i.id', true);
call pg_temp.check('select o.*, i.filler from outer_rows o join gone i on o.ref = i.id');
-- In copies.
set ccopt.buffer_mode = copy;
call pg_temp.check('select o.*, i.filler from outer_rows o join inner_rows i on o.refday = i.day and o.ref = i.id');
reset ccopt.buffer_mode;

-- ---- hashed groups ----
select pg_temp.shape('select ref, count(*) from outer_rows group by ref');
call pg_temp.check('select ref, count(*), sum(amount), max(noise) from outer_rows group by ref');
call pg_temp.check('select ref, refday, count(*) from outer_rows group by ref, refday having count(*) > 1');
-- The planner expects 100,000 groups; there are six.
select pg_temp.shape('select big / 20000000000000, count(*) from inner_rows group by 1', true);

-- ---- nested loops over an index: rows sorted by key ----
set enable_hashjoin = off;
set enable_nestloop = on;
set enable_memoize = off;
set enable_bitmapscan = off;
set enable_seqscan = on;
select pg_temp.shape('select count(*), sum(amount), max(i.filler) from outer_rows o join inner_rows i on i.id = o.ref', true);
call pg_temp.check('select count(*), sum(amount), max(i.filler), sum(i.big), min(o.noise), count(o.ref) from outer_rows o join inner_rows i on i.id = o.ref');
call pg_temp.check('select count(*), sum(amount), max(i.filler), sum(i.big), count(o.ref) from outer_rows o left join inner_rows i on i.id = o.ref');
call pg_temp.check('select count(*), sum(amount), max(i.filler) from outer_rows o join inner_rows i on i.big = o.refbig');
call pg_temp.check('select count(*), sum(amount), max(i.filler) from outer_rows o join inner_rows i on i.day = o.refday');
call pg_temp.check('select o.ref, o.amount, i.filler from outer_rows o join inner_rows i on i.id = o.ref order by o.amount, o.ref, i.filler');
call pg_temp.check('select i.day, count(*), sum(amount) from outer_rows o join inner_rows i on i.id = o.ref group by i.day');
-- Sorted keys: the first rows show it, and the others pass unsorted.
create temp table ascending as select * from outer_rows order by ref;
vacuum analyze ascending;
select pg_temp.shape('select count(*), max(i.filler) from ascending o join inner_rows i on i.id = o.ref', true);
call pg_temp.check('select count(*), sum(amount), max(i.filler) from ascending o join inner_rows i on i.id = o.ref');
-- Not where the order is visible: to the client, a LIMIT, sums of floats, an array, a window; nor for numerics of
-- any scale.
create function pg_temp.sorts_keys(query text) returns boolean language sql as
  $$ select bool_or(line ~ 'key order') from pg_temp.shape(query) line $$;
select query, pg_temp.sorts_keys('select ' || query)
from (values ('o.id, i.filler from outer_rows o join inner_rows i on i.id = o.ref'),
             ('o.id, i.filler from outer_rows o join inner_rows i on i.id = o.ref order by o.id'),
             ('o.id, i.filler from outer_rows o join inner_rows i on i.id = o.ref order by o.id limit 10'),
             ('sum(o.amount) from outer_rows o join inner_rows i on i.id = o.ref'),
             ('sum(o.noise) from outer_rows o join inner_rows i on i.id = o.ref'),
             ('array_agg(o.id) from outer_rows o join inner_rows i on i.id = o.ref'),
             ('array_agg(o.id order by o.amount) from outer_rows o join inner_rows i on i.id = o.ref'),
             ('min(o.amount) from outer_rows o join inner_rows i on i.id = o.ref'),
             ('min(o.amount * 2) from outer_rows o join inner_rows i on i.id = o.ref'),
             ('o.refday, max(o.id) from outer_rows o join inner_rows i on i.id = o.ref group by o.refday'),
             ('o.refday, max(o.id) from outer_rows o join inner_rows i on i.id = o.ref group by o.refday order by 1'),
             ('o.noise, max(o.id) from outer_rows o join inner_rows i on i.id = o.ref group by o.noise order by 2'),
             ('max(n) from (select row_number() over (order by refday) as n from outer_rows o join inner_rows i on i.id = o.ref) s'),
             ('count(*) from (select distinct on (refday) o.id from outer_rows o join inner_rows i on i.id = o.ref order by refday) s'),
             ('exists (select from outer_rows o join inner_rows i on i.id = o.ref where o.id > 5)')) q (query);
reset enable_memoize;
reset enable_bitmapscan;

-- ---- filters from finished hash tables ----
set enable_hashjoin = on;
set enable_nestloop = off;
set ccopt.enable_batch_scan = on;
set ccopt.force = on;
create temp table few as select id, id % 7 as kind from generate_series(1, 130000, 40) id;
analyze few;
create function pg_temp.scanned(query text) returns table (rows_of_scan bigint) language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ 'BatchScan\) on outer_rows' then
      rows_of_scan := substring(line from 'rows=(\d+)');
      return next;
    end if;
  end loop;
end $$;
select rows_of_scan < 15000 as filtered from pg_temp.scanned('select count(*) from outer_rows o join few f on f.id = o.ref');
call pg_temp.check('select o.*, f.kind from outer_rows o join few f on f.id = o.ref');
call pg_temp.check('select o.*, f.kind from outer_rows o right join few f on f.id = o.ref');
call pg_temp.check('select o.* from outer_rows o where o.ref in (select id from few)');
call pg_temp.check('select o.*, f.kind from outer_rows o join few f on f.id = o.refwide');
-- Rows without a partner are part of the result.
select rows_of_scan from pg_temp.scanned('select count(f.id) from outer_rows o left join few f on f.id = o.ref');
call pg_temp.check('select o.*, f.kind from outer_rows o left join few f on f.id = o.ref');
call pg_temp.check('select o.* from outer_rows o where not exists (select from few f where f.id = o.ref)');
call pg_temp.check('select o.*, f.kind from outer_rows o full join few f on f.id = o.ref');
-- Most rows have a partner: switched off.
select rows_of_scan > 75000 as not_filtered from pg_temp.scanned('select count(*) from outer_rows o join (select id from generate_series(1, 125000) id) f on f.id = o.ref');
-- Through a join in between.
set join_collapse_limit = 1;
select rows_of_scan < 15000 as filtered from pg_temp.scanned('select count(*), max(i.filler) from (outer_rows o join inner_rows i on i.id = o.ref) join few f on f.id = o.ref');
call pg_temp.check('select o.*, i.filler, f.kind from (outer_rows o join inner_rows i on i.id = o.ref) join few f on f.id = o.ref');
call pg_temp.check('select o.*, i.filler, f.kind from (outer_rows o left join inner_rows i on i.id = o.ref) join few f on f.id = o.ref');
call pg_temp.check('select o.*, f.kind from (select * from outer_rows o where not exists (select from inner_rows i where i.id = o.ref and i.id % 3 = 0)) o join few f on f.id = o.ref');
reset join_collapse_limit;
-- The table changes at each rescan, and the filter with it.
call pg_temp.check('select k, n from generate_series(0, 6) k, lateral (select count(*) as n from outer_rows o join (select id from few where kind = k offset 0) f on f.id = o.ref) s');
-- No table, no rows; NULL keys.
call pg_temp.check('select o.*, f.kind from outer_rows o join (select * from few where kind > 7) f on f.id = o.ref');
call pg_temp.check('select o.*, f.kind from outer_rows o join (select case when kind > 3 then id end as id, kind from few) f on f.id = o.ref');
set ccopt.enable_bloom = off;
select rows_of_scan from pg_temp.scanned('select count(*) from outer_rows o join few f on f.id = o.ref');
