-- CC-Optimizer's rule: queries A to H of the paper's table 1, joins, sorts, thresholds; and plans that must get no
-- buffer.
\set VERBOSITY terse
set max_parallel_workers_per_gather = 0;
set jit = off;
set ccopt.enable_batch_scan = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.enable_batch_window = off;
set ccopt.enable_adaptive_join = off;

create temp table points (id integer primary key, point integer);
insert into points select i, (i * 7919) % 1000 - 10 from generate_series(1, 6000) i;
create temp table names (point integer, name text);
insert into names select i, 'name ' || i from generate_series(-10, 1989) i;
vacuum analyze points;
vacuum analyze names;

-- The nodes of a plan, one a line, and how many rows its buffers hold.
create function pg_temp.shape(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ '->|^\S' then
      return next regexp_replace(line, ' on .*| using .*', '');
    elsif line ~ 'Buffered Rows' then
      return next regexp_replace(line, '^(\s*)Buffered Rows: ', '\1holds ');
    end if;
  end loop;
end $$;
create function pg_temp.buffers(query text) returns bigint language sql as $$
  select count(*) from pg_temp.shape(query) line where line ~ 'Custom Scan \(Buffer\)' $$;

-- Off by default.
show ccopt.buffer;
select pg_temp.buffers('select count(*), avg(point), max(point/2), sum(id/2) from points where id < 5000000 and point >= 0');

set ccopt.buffer = paper;
-- Table 1. In the paper F and G certainly gain.
select query, pg_temp.buffers('select ' || aggregates || ' from points where id < 5000000 and point >= 0') as buffers
from (values ('A', 'count(*)'),
             ('B', 'count(*), avg(point)'),
             ('C', 'count(*), avg(point), sum(id)'),
             ('D', 'count(*), avg(point), sum(id), sum(id/2)'),
             ('E', 'count(*), avg(point), avg(id), sum(id/2)'),
             ('F', 'count(*), avg(point), max(point/2), sum(id/2)'),
             ('G', 'count(*), avg(point), avg(id), sum(id/2), max(point/2)'),
             ('H', 'count(*), avg(point), avg(id), avg(id/2), avg(point/2), avg(id/3)')) table1 (query, aggregates);
select pg_temp.shape('select count(*), avg(point), max(point/2), sum(id/2) from points where id < 5000000 and point >= 0');
-- Three kinds without avg and sum, or in HAVING.
select pg_temp.buffers('select min(point/2), max(point/2), count(*), bool_and(id > 0) from points');
select pg_temp.buffers('select max(point/2), sum(id) from points group by point having avg(id) > 7');

-- 1500 rows or more; a buffer is no larger than its number of rows.
select pg_temp.shape('select avg(point), max(point/2), sum(id/2) from points where id <= 1700');
select pg_temp.buffers('select avg(point), max(point/2), sum(id/2) from points where id <= 1400');

-- Joins: the outer side only; Hash is no major module. 2000 rows are split equally.
set enable_mergejoin = off;
set enable_nestloop = off;
select pg_temp.shape('select avg(p.id), max(n.name), sum(p.point) from points p join names n using (point)');
set enable_hashjoin = off;
set enable_nestloop = on;
select pg_temp.shape('select p.id, q.id from points p join points q on q.id = p.point');
set enable_nestloop = off;
set enable_mergejoin = on;
-- Never the inner side of a merge join; sorts read everything anyway.
select pg_temp.shape('select p.id, n.name from points p join names n using (point)');
-- 18 would see that the row is the same, and read the table once.
do $$ begin perform set_config(name, 'off', false) from pg_settings where name = 'enable_self_join_elimination'; end $$;
select pg_temp.shape('select p.id, q.point from points p join points q using (id)');
reset enable_hashjoin;
reset enable_nestloop;
reset enable_mergejoin;

-- Sorts: above a scan, not below another operator.
select pg_temp.shape('select * from points order by point');

-- Only a SELECT without locks gets buffers, and no cursor that can go backwards.
set ccopt.buffer = force;
select pg_temp.buffers('select * from points order by point');
select pg_temp.buffers('select * from points order by point for update');
select pg_temp.buffers('insert into points select id + 10000, point from points order by point');
select pg_temp.buffers('with written as (delete from points returning id) select max(id) from written');
select pg_temp.buffers('select max(id + random()) from points');
select pg_temp.buffers('declare c scroll cursor for select * from points order by point');
select pg_temp.buffers('declare c cursor for select * from points order by point');
select pg_temp.buffers('declare c no scroll cursor for select * from points order by point');
begin;
declare backwards scroll cursor for select p.id, n.name from points p join names n using (point) order by p.id;
fetch 3 from backwards;
fetch backward 2 from backwards;
move last from backwards;
fetch backward 1 from backwards;
fetch absolute 2 from backwards;
close backwards;
declare by_default cursor for select id from points where point = 5;
fetch 3 from by_default;
fetch backward 2 from by_default;
close by_default;
declare forwards no scroll cursor for select id from points p join names n using (point) where point = 5;
fetch 2 from forwards;
fetch backward 1 from forwards;
rollback;

-- A parameter that changes: the child of a buffer must not depend on it.
select pg_temp.shape('select (select max(q.id) from (select id from points q where q.point = p.point offset 0) q) from points p');

-- If a parent may stop early, rows whose expressions can fail are not read ahead.
select 1 / (id - 5) as divided from points p join names n using (point) where n.point = 25 limit 1;
select pg_temp.shape('select * from (select 1 / (id - 4000) as divided from points offset 0) p join names n on n.point = p.divided limit 1');
select * from (select 1000 / (id - 4000) as divided from points offset 0) p join names n on n.point = p.divided limit 1;
