-- The column cache: what is taken from it, what is not, and that answers are stock's all along. Numbers of hits and fills
-- are pages times columns: a run is 16 pages, and only full runs are cached.
set client_min_messages = warning;
create schema cache;
set search_path = cache;
set ccopt.force = on;
set ccopt.enable_cache = on;
set ccopt.shapes = off;
set max_parallel_workers_per_gather = 0;

-- 50 rows a page, so 40 pages: two full runs and 8 pages.
create table kept (k int not null, n numeric(10,2), t text not null, filler char(80) not null);
insert into kept select i, i / 4.0, 'text ' || i % 10, '' from generate_series(1, 2000) i;
vacuum analyze kept;
select relpages, relpages / 16 as full_runs from pg_class where oid = 'kept'::regclass;

-- The rows as stock has them, and what the cache gave.
create function look(query text) returns text language plpgsql as $$
declare
  batched text; stock text; hits bigint; fills bigint; before record;
  rows text := format('select md5(coalesce(string_agg(r, e''\n'' order by r), '''')) from (select s::text collate "C" as r from (%s) s) q', query);
begin
  select sum(cache_hits) as hits, sum(cache_fills) as fills into before from ccopt.ccopt_stats;
  execute rows into batched;
  select sum(cache_hits) - before.hits, sum(cache_fills) - before.fills into hits, fills from ccopt.ccopt_stats;
  perform set_config('ccopt.enabled', 'off', false);
  execute rows into stock;
  perform set_config('ccopt.enabled', 'on', false);
  return format('%s, %s hits, %s fills', case when batched = stock then 'same' else 'DIFFERENT' end, hits, fills);
end $$;

select look('select sum(k), count(n) from kept');  -- seen for the first time
select look('select sum(k), count(n) from kept');  -- 2 columns of 32 pages
select look('select sum(k), count(n) from kept');
select look('select sum(n) from kept where k > 1500 and t = ''text 3''');  -- t is new
select look('select sum(n) from kept where k > 1500 and t = ''text 3''');
select look('select count(*) from kept');  -- rows are counted: as one column
select look('select count(*) from kept');
select look('select * from kept where k % 7 = 1');
select look('select * from kept where k % 7 = 1');
select public.plan_lines('select k from kept where k < 10', 'analyze, costs off, timing off, summary off');
select state, limit_bytes, used_bytes between 1 and limit_bytes as within, pinned_segments from ccopt.ccopt_cache;

-- A page that changed: its run is read from the heap, the other one is not. Its new row is behind both.
update kept set n = -1 where k = 10;
select look('select sum(k), sum(n) from kept');
delete from kept where k = 11;
select look('select sum(k), sum(n) from kept');
-- VACUUM makes the page all-visible again: what was kept of its run is not true any more, the other run still is.
vacuum kept;
select look('select sum(k), sum(n) from kept');
select look('select sum(k), sum(n) from kept');
-- In one transaction, and undone.
begin;
update kept set n = -2 where k = 900;
select look('select sum(k), sum(n) from kept');
rollback;
select look('select sum(k), sum(n) from kept');
vacuum kept;
select look('select sum(k), sum(n) from kept');
select look('select sum(k), sum(n) from kept');
-- A lock on a row leaves the page all-visible.
begin;
select k from kept where k = 20 for update;
select look('select sum(k), sum(n) from kept');
commit;
-- Freezing changes pages and no row.
vacuum freeze kept;
select look('select sum(k), sum(n) from kept');
select look('select sum(k), sum(n) from kept');

-- A cursor sees what was there when it was opened. (Over one table alone it has a plan of core.)
begin;
declare c no scroll cursor for select k, n from generate_series(1, 1), kept where k in (30, 31, 1900);
fetch 1 from c;
update kept set n = 0;
fetch all from c;
select look('select sum(k), sum(n) from kept');
rollback;
vacuum kept;
select look('select sum(k), sum(n) from kept');

-- Other files, other types.
select look('select sum(k), sum(n) from kept');
truncate kept;
insert into kept select i, i, 'again', '' from generate_series(1, 2000) i;
vacuum kept;
select look('select sum(k), sum(n) from kept');
select look('select sum(k), sum(n) from kept');
select look('select sum(k), sum(n) from kept');
alter table kept alter n type numeric(12,2);  -- no rewrite; numbers are of another column
select look('select sum(k), sum(n) from kept');
select look('select sum(k), sum(n) from kept');
alter table kept alter n type numeric(12,4);
vacuum kept;
select look('select sum(n) from kept');
select look('select sum(n) from kept');
select look('select sum(n) from kept');
vacuum full kept;
vacuum kept;
select look('select sum(n) from kept');
select look('select sum(n) from kept');

-- A column that rows lack is not cached: another default may come.
begin;
alter table kept add column late int default 5;
select look('select sum(late) from kept');
select look('select sum(late) from kept');
rollback;
alter table kept add column late int default 6;
select look('select sum(late) from kept');
select look('select sum(late) from kept');
select sum(late) from kept;
update kept set late = 7;
vacuum full kept;
vacuum kept;
select look('select sum(late) from kept');
select look('select sum(late) from kept');
select look('select sum(late) from kept');

-- COPY FREEZE goes on to fill an all-visible page.
begin;
create table frozen (k int, filler char(80));
copy frozen from program 'seq -f "%g," 1 790' with (freeze, format csv);
select look('select sum(k) from frozen');
select look('select sum(k) from frozen');
copy frozen from program 'seq -f "%g," 791 900' with (freeze, format csv);
select look('select sum(k) from frozen');
commit;
select look('select sum(k) from frozen');
select look('select sum(k) from frozen');
select look('select sum(k) from frozen');

-- Not used: tables without log, catalogs, serializable transactions.
create unlogged table unlogged as select * from kept;
create temporary table temporary as select * from kept;
vacuum unlogged;
vacuum temporary;
select look('select sum(k) from unlogged') from generate_series(1, 3);
select look('select sum(k) from temporary') from generate_series(1, 3);
select look('select count(*), sum(attlen) from pg_attribute') from generate_series(1, 3);
begin isolation level serializable;
select look('select sum(late) from kept');
commit;
set ccopt.enable_cache = off;
select look('select sum(late) from kept');
select state from ccopt.ccopt_cache;
set ccopt.enable_cache = on;
select look('select sum(late) from kept');

-- Values of all forms.
create table forms (i2 int2, i8 int8, b bool, u uuid, name name, f float8, d date, ch "char", c1 char(1) not null,
  short text not null, long text, packed text, small numeric(4,1), large numeric(18,2), wide numeric, moment timestamptz);
alter table forms alter packed set storage main, alter long set storage plain;
insert into forms select i, i * 10000000000, i % 2 = 0, md5(i::text)::uuid, 'n' || i, i / 8.0, date '2000-01-01' + i, 'x',
  chr(65 + i % 3), 'same size', repeat(md5(i::text), 5), repeat('y', 2500), i % 900 / 10.0, i * 1000000000.25,
  i * 1.125, timestamptz '2000-01-01 00:00+00' + i * interval '1 hour' from generate_series(1, 4000) i;
insert into forms (c1, short) select 'N', 'nulls' from generate_series(1, 4000);
vacuum forms;
select look('select * from forms') from generate_series(1, 2);
select look('select * from forms') ~ '^same, [1-9]\d*0?.* hits, 0 fills' as whole_rows;
select look('select c1, short, count(*), sum(i2), sum(i8), min(d), max(moment), sum(small), sum(large), min(large), max(small) from forms where b or c1 = ''N'' group by c1, short') ~ '^same' as first;
select look('select c1, short, count(*), sum(i2), sum(i8), min(d), max(moment), sum(small), sum(large), min(large), max(small) from forms where b or c1 = ''N'' group by c1, short') ~ '^same, [1-9]\d* hits, 0 fills' as groups;
select look('select small, count(*), sum(large * small) from forms group by small') ~ '^same' as products;
select look('select f.i2, g.large from forms f join forms g on f.i2 = g.i2 and f.small = g.small where f.large > 100') ~ '^same' as joined;
select look('select sum(large * large) from forms') ~ '^same' as beyond_64_bits;
select look('select sum(large * large) from forms') ~ '^same' as beyond_64_bits;
select look('select i2 from forms where long like ''%ab%'' or packed is null') ~ '^same' as texts;
select look('select i2 from forms where long like ''%ab%'' or packed is null') ~ '^same, [1-9]\d* hits' as texts;
-- Values that numbers cannot hold: the column is kept as it is, if at all.
update forms set small = 'NaN' where i2 % 500 = 3;
vacuum forms;
select look('select count(*), sum(small), max(small) from forms where i2 > 5') ~ '^same' as odd from generate_series(1, 3);

-- Toasted values are elsewhere: such columns are not cached.
create table toasted (k int, t text);
alter table toasted alter t set storage external;
insert into toasted select i, repeat(md5(i::text), 100) from generate_series(1, 3000) i;
vacuum toasted;
select look('select k, length(t), md5(t) from toasted') from generate_series(1, 3);
select look('select sum(k) from toasted') from generate_series(1, 2);

-- Errors and cancelled statements leave no pins.
select k / (k - 1500) from kept;
do $$
begin
  for i in 1 .. 20 loop
    begin
      perform k / (k - 1500) from kept;
    exception when division_by_zero then null;
    end;
  end loop;
end $$;
select (select k from kept where k > 100 limit 1) is not null;
select pinned_segments from ccopt.ccopt_cache;
select look('select k, late from kept') from generate_series(1, 2);
begin;
declare c no scroll cursor for select late from generate_series(1, 1), kept;
fetch 10 from c;
select pinned_segments > 0 as pinned from ccopt.ccopt_cache;
savepoint s;
declare d no scroll cursor for select late from generate_series(1, 1), kept;
fetch 1 from d;
rollback to s;
fetch 1 from c;
close c;
select pinned_segments from ccopt.ccopt_cache;
commit;

-- In parallel workers.
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set max_parallel_workers_per_gather = 2;
set ccopt.force = off;
set parallel_leader_participation = off;
create table shared (k int not null, n numeric(10,2), filler char(80) not null);
insert into shared select i, i / 4.0, '' from generate_series(1, 60000) i;
vacuum analyze shared;
select relpages / 16 * 16 * 2 as of_two_columns from pg_class where oid = 'shared'::regclass;
explain (costs off) select sum(k), sum(n) from shared where k > 1000;
select look('select sum(k), sum(n) from shared where k > 1000') from generate_series(1, 3);
set parallel_leader_participation = on;
select look('select sum(k), sum(n) from shared where k > 1000');
set max_parallel_workers_per_gather = 0;

-- Other roles may look.
create role cache_reader;
set role cache_reader;
select state from ccopt.ccopt_cache;
reset role;
drop role cache_reader;
drop schema cache cascade;
