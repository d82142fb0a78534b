-- BatchScan returns SeqScan's rows: every kind of row, every kind of predicate.
\set VERBOSITY terse
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set jit = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.buffer = off;
set enable_indexscan = off;
set enable_bitmapscan = off;

-- The rows of a query by stock and by BatchScan: the same, counted.
create function pg_temp.compare(query text, out rows bigint, out missing bigint, out surplus bigint, out scan text)
language plpgsql as $$
declare
  plan_line text;
begin
  drop table if exists stock, ours;
  set local ccopt.force = off;
  set local ccopt.enabled = off;
  execute 'create temp table stock as select q::text as row_text from (' || query || ') q';
  set local ccopt.enabled = on;
  set local ccopt.force = on;
  execute 'create temp table ours as select q::text as row_text from (' || query || ') q';
  select count(*) from stock into rows;
  select count(*) from (select row_text from stock except all select row_text from ours) m into missing;
  select count(*) from (select row_text from ours except all select row_text from stock) s into surplus;
  scan := 'none';
  for plan_line in execute 'explain ' || query loop
    if plan_line ~ 'BatchScan' then scan := 'BatchScan'; end if;
  end loop;
end $$;

-- Rows old and new: dropped and added columns, NULLs, values of all sizes, versions of rows.
create table mixed (id integer, gone text, small smallint, a integer, b bigint, n numeric(10,2), m numeric(18,6),
                    t text, c char(5), v varchar(20), d date, ts timestamp, tz timestamptz, f boolean, q "char", o oid,
                    free numeric, fl float8, big text, arr integer[]);
alter table mixed alter big set storage external;
insert into mixed
select i, 'gone ' || i, i % 7, i % 100, i::bigint * 1000000007, i * 1.25 - 500, i / 7.0 - 20,
       'text ' || i % 13, chr(65 + i % 3), repeat('v', i % 20), date '2000-01-01' + i % 500,
       timestamp '2000-01-01' + interval '1 hour' * i, timestamptz '2000-01-01 00:00+00' + interval '1 minute' * i,
       i % 3 = 0, chr(32 + i % 90)::"char", i, i / 3.0, i / 3.0, null, array[i, i + 1]
from generate_series(1, 2000) i;
-- With NULLs anywhere.
insert into mixed
select i, case when i % 2 = 0 then 'gone' end, nullif(i % 5, 0), nullif(i % 6, 1), nullif(i % 7, 1), nullif(i % 8, 1) * 10.5,
       nullif(i % 9, 1) * -0.000001, nullif('text ' || i % 10, 'text 1'), nullif(chr(65 + i % 11), 'A'),
       nullif(repeat('w', i % 12), ''), nullif(date '2001-01-01' + i % 13, '2001-01-02'), nullif(timestamp '2001-01-01' + interval '1 day' * (i % 14), '2001-01-01'),
       nullif(timestamptz '2001-01-01 00:00+00' + interval '1 day' * (i % 15), '2001-01-01 00:00+00'), case i % 3 when 0 then true when 1 then false end,
       case when i % 2 = 0 then chr(200)::"char" end, nullif(i % 16, 1), nullif(i % 17, 1), nullif(i % 18, 1),
       case when i % 19 = 0 then repeat(chr(97 + i % 26), i) end, case when i % 20 > 0 then array[i] end
from generate_series(2001, 4000) i;
alter table mixed drop column gone;
alter table mixed add column late integer default 42;
alter table mixed add column late_text text default 'was late';
alter table mixed add column late_n numeric(6,1) default 12.3;
alter table mixed add column late_null date;
insert into mixed (id, a, n, t, late, late_text, late_null)
select i, i % 50, i / 100.0, 'text ' || i % 3, nullif(i % 4, 0), nullif('t' || i % 5, 't0'), date '2010-01-01' + i % 10 from generate_series(4001, 5000) i;
-- Values at and beyond the limits of a column's number type.
insert into mixed (id, n, m, free, fl, d, ts, b, a, small, o)
values (5001, 'NaN', 'NaN', 'NaN', 'NaN', 'infinity', 'infinity', 9223372036854775807, 2147483647, 32767, 4294967295),
       (5002, 99999999.99, 999999999999.999999, 'Infinity', 'Infinity', '-infinity', '-infinity', -9223372036854775808, -2147483648, -32768, 0),
       (5003, -99999999.99, -999999999999.999999, '-Infinity', '-Infinity', '5874897-12-31', '294276-12-31', 0, 0, 0, 2147483648),
       (5004, 0, 0, 0, 0, '4713-01-01 BC', '4713-01-01 BC', -1, -1, -1, 1),
       (5005, 0.01, 0.000001, 1e30, 1e-30, '2000-01-01', '2000-01-01', 1, 1, 1, 1),
       (5006, -0.01, -0.000001, -1e30, -1e-30, '1999-12-31', '1999-12-31 23:59:59.999999', 1, 1, 1, 1),
       (5007, 10000, 10000, 1, 1, null, null, 1, 1, 1, 1), (5008, 12340000, 100000000, 1, 1, null, null, 1, 1, 1, 1);
-- Stored elsewhere, and compressed in place.
insert into mixed (id, t, big, late_text)
select i, repeat('long ' || i % 3 || ' ', 1000), (select string_agg(md5((i % 2 + j)::text), '') from generate_series(1, 200) j), repeat('x', 3000 + i % 2)
from generate_series(5010, 5030) i;
-- Versions: HOT chains, rows moved to other pages, deleted rows, an aborted insert, empty pages in between.
update mixed set a = a + 1 where id % 10 = 0;
update mixed set t = t || repeat(' moved', 20) where id % 50 = 1;
delete from mixed where id between 700 and 1100;
vacuum mixed;
begin;
insert into mixed (id, a) select i, i from generate_series(10000, 11000) i;
rollback;
begin;
update mixed set a = -a where id % 3 = 0;
savepoint s;
delete from mixed where id % 5 = 0;
rollback to s;
commit;
analyze mixed;

create temp table predicates (place serial, predicate text);
insert into predicates (predicate) values
('true'), ('a < 10'), ('a <= 10'), ('a = 10'), ('a <> 10'), ('a >= 10'), ('a > 10'), ('10 > a'), ('not a > 10'),
('a = 10::bigint'), ('small < 3'), ('small <> 3::bigint'), ('b > 1000000007000'), ('b = 9223372036854775807'), ('b < -9223372036854775807'),
('b >= -9223372036854775808'), ('b > 9223372036854775807'), ('b < a'), ('a = small'), ('small >= b'),
('n < 0'), ('n <= 0.01'), ('n < 0.015'), ('n > -0.015'), ('n >= 0.015'), ('n = 0.015'), ('n <> 0.015'), ('n = 12.50'), ('n <> 12.5'),
('n < 1e30'), ('n > 1e30'), ('n > -1e30'), ('n = ''NaN'''), ('n < ''NaN'''), ('n >= ''NaN'''), ('n <> ''NaN'''), ('n <= ''Infinity'''), ('n > ''-Infinity'''),
('n > 5 and n < ''Infinity'''), ('n > 5 and n < 10'), ('n between 5 and 5.1'), ('n between 10 and 5'), ('not n between 5 and 1000'),
('m > 0'), ('m = -0.000001'), ('m < 999999999999.999999'), ('m >= 999999999999.999999'), ('n < m'), ('m = m'), ('n <> n'),
('n = 99999999.99'), ('n in (1.25, 2.5, 10, 99)'), ('n not in (1.25, 2.5, 0.001)'), ('n in (0.001, ''NaN'')'), ('n not in (0.001, ''NaN'')'),
('t = ''text 3'''), ('t <> ''text 3'''), ('t in (''text 1'', ''text 2'', ''none'')'), ('t not in (''text 1'', ''text 2'')'), ('t not in (''text 1'', null)'),
('t in (''text 1'', null)'), ('t = any(''{}'')'), ('t <> all(''{}'')'), ('a <> all(''{}'')'), ('not (a = any(''{}''))'), ('t = any(null::text[])'),
('t in (''text 0'', ''text 1'', ''text 2'', ''text 3'', ''text 4'', ''text 5'', ''text 6'')'), ('t = t'), ('t = late_text'), ('t <> v'), ('t = repeat(''long 1 '', 1000)'),
('big = (select string_agg(md5((1 + j)::text), '''') from generate_series(1, 200) j)'), ('big <> ''a'''), ('late_text = repeat(''x'', 3001)'),
('t like ''text%'''), ('t like ''%1'''), ('t like ''%ex%1%'''), ('t like ''te%1'''), ('t like ''text 1'''), ('t like ''%'''), ('t like '''''), ('t not like ''%1%'''),
('not t like ''%1%'''), ('t like ''%long 2 long 2 %'''), ('big like ''%aaaaaaaaaaaaaaaaaaa%'''), ('t like ''text_1'''), ('t like ''text\%'''), ('t like ''%%text%%1%%'''), ('t like null'),
('t like ''text 1%1'''), ('c like ''A%'''), ('c like ''A    '''), ('c like ''A'''), ('v like ''vv%v'''), ('t ~~ t'),
('c = ''A'''), ('c = ''A '''), ('c <> ''A'''), ('c in (''A'', ''B  '')'), ('c = v'), ('v = ''vvv'''), ('v = '''''), ('v in ('''', ''w'')'), ('c > ''A'''), ('t < ''text 5'''),
('d = ''2000-01-02'''), ('d < ''2000-03-01'' and d >= ''2000-02-01'''), ('d <= date ''2000-12-01'' - interval ''90 days'''), ('d < timestamp ''2000-01-01 12:00'''),
('d = timestamp ''2000-01-01 12:00'''), ('d <> timestamp ''2000-01-01 12:00'''), ('d < timestamp ''infinity'''), ('d = timestamp ''infinity'''), ('d <= timestamp ''-infinity'''),
('d > timestamp ''294276-12-31'''), ('d < ''infinity'''), ('d < timestamptz ''2000-03-01 00:00+00'''), ('ts < timestamp ''2000-01-03'''), ('ts = ''infinity'''), ('ts < d'),
('tz > ''2000-01-01 05:00+00'''), ('d in (''2000-01-02'', ''2000-01-09'', ''infinity'')'),
('f'), ('not f'), ('f = true'), ('f is true'), ('f is not true'), ('f is false'), ('not (f is true)'), ('f is unknown'), ('f = (a = 1)'), ('f and a < 5'), ('f or a < 5'), ('not (f or a < 5)'),
('q > ''z'''), ('q = ''A'''), ('o > 2147483647'), ('o in (1, 2, 3, 4294967295)'),
('a is null'), ('a is not null'), ('not (a is null)'), ('t is null and late_null is null'), ('arr is null'), ('n is null or n > 5'), ('big is not null'),
('a in (1, 2)'), ('a in (1, 5, 7, 99)'), ('a in (1, 1000000, 2147483647)'), ('a not in (1, 5, 7, 99)'), ('a not in (1, null)'), ('a in (1, null)'), ('b in (1000000007, 5)'),
('a = 1 or a = 5 or n > 900'), ('(a = 1 or t = ''text 2'') and (n < 100 or f)'), ('not ((a = 1 or t = ''text 2'') and (n < 100 or f))'),
('not (a = 1 and n is not null)'), ('(a < 5 and n > 3) or (a > 90 and t like ''%1%'') or (late = 42 and c = ''B'')'), ('a = 1 or null'), ('a = 1 and null'), ('n > 3 or n <> n'),
('late = 42'), ('late <> 42'), ('late is null'), ('late_text = ''was late'''), ('late_text like ''%late'''), ('late_n = 12.3'), ('late_n > 12'), ('late_null is null'), ('late_null > ''2010-01-05'''),
('a / 2 < 10'), ('a < 10 and b % 3 = 0'), ('free > 1'), ('free = ''Infinity'''), ('fl > 100'), ('fl < ''NaN'' and a < 20'), ('length(t) > 6 and n > 5'),
('t = ''text 3''::name'), ('t in (''text 3''::name, ''text 4'')'), ('c = ''A''::name'), ('t::bpchar = ''text 3 '''), ('c::text = ''A'''), ('c in (''A''::text, ''B'')'), ('v = any(array[''vvv'']::varchar[])'), ('t = ''text 3''::bpchar'),
('a < (select 10)'), ('n < (select avg(n) from mixed where n <> ''NaN'')'), ('a = (select null::integer)'), ('t = (select min(t) from mixed)'), ('a = any(array(select 5 union select 7))'),
('a < extract(year from current_date)::integer - 2015'), ('id < 150 and exists (select from mixed i where i.id = mixed.a and i.n > mixed.n)'), ('1 = 2'), ('current_user = current_user and a = 3');

-- Differences: none. Predicates for which there is no BatchScan are listed, too.
select predicate, rows, missing, surplus, scan
from predicates, pg_temp.compare('select * from mixed where ' || predicate) where missing + surplus > 0 or scan <> 'BatchScan' order by place;
select count(*) as predicates, sum(rows) as rows, sum(missing) as missing, sum(surplus) as surplus
from predicates, pg_temp.compare('select id, late_n, t, c, late_text, m from mixed where ' || predicate) where place % 4 = 0;
-- No column, and expressions.
select count(*) as predicates, sum(rows) as rows, sum(missing) as missing, sum(surplus) as surplus
from predicates, pg_temp.compare('select from mixed where ' || predicate) where place % 4 = 1;
select count(*) as predicates, sum(rows) as rows, sum(missing) as missing, sum(surplus) as surplus
from predicates, pg_temp.compare('select a / 2, upper(c), n * m, late_n from mixed where ' || predicate) where place % 4 = 2;

create temp table queries (place serial, query text);
insert into queries (query) values
('select count(*) from mixed'), ('select count(*), sum(n), min(t), max(big) from mixed where a < 30'), ('select * from mixed order by id limit 17'),
('select id from mixed where a < 50 limit 20'), ('select a, count(*) from mixed group by a'),
('select x.id, y.id from mixed x, mixed y where x.a = y.id and x.n < 100'), ('select x.id, y.t from mixed x left join mixed y on x.id = y.a and y.late = 42'),
('select id from mixed x where exists (select from mixed y where y.a = x.id)'),
('select x.id, (select count(*) from mixed y where y.a = x.small and y.n > x.n) from mixed x where x.id < 100'),
('select g, (select count(*) from mixed where a = g and t = any(array[''text '' || g, ''text '' || g + 1])) from generate_series(0, 20) g'),
('select g, id from generate_series(1, 10) g, lateral (select id from mixed where a = g order by id limit 3) s'),
('select g, id from generate_series(1, 10) g, lateral (select id from mixed where a / 1 < g limit 2) s'),
('select distinct t from mixed'), ('select big, late_text, t from mixed where big is not null order by id'),
('with c as (select * from mixed where a = 7) select x.id, y.id from c x, c y'),
('select id, row_number() over (partition by a order by id) from mixed where n > 0'),
('select * from (select id, n from mixed where a < 10 union all select id, m from mixed where a > 90) u'),
('select t, late_text from mixed where id % 2 = 0 order by t, id'), ('select id from mixed where n > 0 and 1000 / nullif(a, 0) > 20'),
('select case when a > 0 then 10 / a end from mixed where a > 0');
select query, r.* from queries, pg_temp.compare(query) r order by place;

-- Prepared plans, custom and generic; NULL parameters; parameters of several types.
set ccopt.force = on;
prepare by_values(integer, numeric, text, date) as
  select count(*), sum(id) from mixed where (a < $1 or $1 is null) and n < $2 and (t = $3 or t like 'text 1%') and d < $4;
prepare in_list(integer[], text[]) as select count(*), sum(id) from mixed where a = any($1) and t <> all($2);
set plan_cache_mode = force_custom_plan;
execute by_values(50, 100.005, 'text 2', '2000-06-01');
execute by_values(50, null, 'text 2', '2000-06-01');
execute in_list('{1,2,3,null}', '{text 1}');
execute in_list('{1,2,3}', '{}');
execute in_list('{1,2,3}', '{text 1,null}');
set plan_cache_mode = force_generic_plan;
execute by_values(50, 100.005, 'text 2', '2000-06-01');
execute by_values(50, null, 'text 2', '2000-06-01');
execute by_values(50, 'NaN', 'text 3', 'infinity');
execute in_list('{1,2,3,null}', '{text 1}');
execute in_list('{1,2,3}', '{}');
execute in_list('{1,2,3}', '{text 1,null}');
explain (costs off) execute in_list('{1,2,3}', '{text 1}');
reset plan_cache_mode;

-- Predicates evaluated row by row fail only on rows that reach them.
select count(*) from mixed where 1 / (a - 11) >= 0 and a > 11;
select count(*) from mixed where 1 / (a - 11) >= 0 and a >= 11;
-- A limit stops before the row that fails.
select id from mixed where 1 / (id - 20) is not null limit 3;

-- A cursor, while the table is being written.
begin;
declare c no scroll cursor for select id, t from mixed where a < 60;
fetch 3 from c;
update mixed set t = 'written' where id < 100;
delete from mixed where id between 5 and 300;
fetch 3 from c;
move 400 in c;
fetch 2 from c;
rollback;

-- Empty tables, emptied ones, tables without columns.
create table empty_one (a integer);
select count(*) from empty_one where a < 5;
insert into empty_one select generate_series(1, 10000);
delete from empty_one where a between 10 and 9990;
select count(*), sum(a) from empty_one where a < 9995;
vacuum empty_one;
select count(*), sum(a) from empty_one where a < 9995;
truncate empty_one;
select count(*) from empty_one;
create table nothing ();
insert into nothing select from generate_series(1, 3000);
select count(*) from nothing;
select * from nothing limit 2;

-- Wide rows: one row a page, and pages that are full of the narrowest rows.
create table wide (id integer, filler text, n numeric(6,2));
alter table wide alter filler set storage plain;
insert into wide select i, repeat('w', 7000), i / 100.0 from generate_series(1, 300) i;
select count(*), sum(n), sum(length(filler)) from wide where n > 1.5;
create table narrow (a smallint);
insert into narrow select i % 300 from generate_series(1, 20000) i;
select count(*), sum(a) from narrow where a < 10;

-- Partitions and children.
create table parted (id integer, n numeric(10,2), t text) partition by range (id);
create table parted_1 partition of parted for values from (0) to (1000);
create table parted_2 (t text, n numeric(10,2), dropped integer, id integer not null);
alter table parted_2 drop column dropped;
alter table parted attach partition parted_2 for values from (1000) to (3000);
insert into parted select i, i / 10.0, 'part ' || i % 10 from generate_series(0, 2999) i;
create table child (more integer) inherits (mixed);
insert into child (id, a, more) select i, i % 10, i from generate_series(1, 2000) i;
analyze parted, mixed, child;
select query, r.* from (values
  ('select * from parted where n > 50 and t = ''part 3'''), ('select count(*), sum(n) from parted where id < 1500 and n < 120.05'),
  ('select id, a from mixed where a < 5')) v(query), pg_temp.compare(query) r;
drop table child, parted, wide, narrow, nothing, empty_one, mixed;
