-- ccopt_calibrate() measures and stores; stored constants apply at once, and only to the same machine, server and
-- version.
\set VERBOSITY terse
set client_min_messages = error;

select name, source from ccopt.ccopt_constants where source <> 'built in';
select count(*), count(distinct name), count(meaning) from ccopt.ccopt_constants;

-- 1: two measurements of one query may differ by 100 %. On a machine that also runs tests they differ by more than
-- 5 %.
select ccopt.ccopt_calibrate(max_spread => 1) ~ '^calibrated for .*, PostgreSQL 1[5-8].*: spread [0-9.]+ %, margin [1-9][0-9.]+$' as calibrated;
select name from ccopt.ccopt_constants where not value > 0 or value = 'Infinity';
select count(*) > 30 as measured from ccopt.ccopt_constants where source = 'measured';
select count(*) from ccopt.ccopt_constants c where source = 'measured'
  and value is distinct from (select t.value from ccopt.calibration t where t.name = c.name);
select value >= 1.3 as margin_not_below_built_in from ccopt.ccopt_constants where name = 'margin';
-- A larger structure is never faster.
select count(*) from ccopt.ccopt_constants a, ccopt.ccopt_constants b
where a.name = 'probe_plain_128kB' and b.name like 'probe_plain_%' and b.value < a.value;
-- Its tables are dropped, and its settings reset.
select relname from pg_class where relname like 'calibration%' and relkind = 'r';
show ccopt.force;
show search_path;

-- A second calibration replaces the first. Results of shapes belong to the constants that they were planned with.
create table calibrate_shape as select i as k, repeat('x', 50) as filler from generate_series(1, 20000) i;
vacuum analyze calibrate_shape;
set ccopt.shapes = suspects;
select count(*) from calibrate_shape where k < 10;
select count(*) from ccopt.ccopt_shapes where query ~ 'calibrate_shape';
create temp table before as select name, measured_at from ccopt.calibration;
select ccopt.ccopt_calibrate(1) <> '' as calibrated;
select count(*) from ccopt.calibration join before using (name) where calibration.measured_at <= before.measured_at;
select (select count(*) from ccopt.calibration) = (select count(*) from before) as as_many;
select count(*) from ccopt.ccopt_shapes where query ~ 'calibrate_shape';
reset ccopt.shapes;
drop table calibrate_shape;

-- The setting overrides the stored constants.
set ccopt.margin = 2.5;
select value, source from ccopt.ccopt_constants where name = 'margin';
reset ccopt.margin;

-- Constants of another processor, server or version are ignored. (ALTER TABLE invalidates the caches of all
-- sessions, an UPDATE does not.)
update ccopt.calibration set processor = 'some other' where name like 'stock%';
update ccopt.calibration set server = '9.6' where name like 'batch%';
update ccopt.calibration set library = 'none' where name like 'probe%';
alter table ccopt.calibration set (fillfactor = 90);
select name, source from ccopt.ccopt_constants where source <> 'built in' order by name;
-- Invalid constants are ignored.
update ccopt.calibration set value = case name when 'margin' then 'NaN'::float8 else -1 end;
alter table ccopt.calibration set (fillfactor = 95);
select name, source from ccopt.ccopt_constants where source <> 'built in';
truncate ccopt.calibration;

-- Arguments and rights.
select ccopt.ccopt_calibrate(0);
select ccopt.ccopt_calibrate('NaN');
select ccopt.ccopt_calibrate(2);
select ccopt.ccopt_calibrate(null) is null as strict;
begin read only;
select ccopt.ccopt_calibrate();
rollback;
create role calibrate_nobody;
set role calibrate_nobody;
select ccopt.ccopt_calibrate();
insert into ccopt.calibration values ('', '', '', 'margin', 1);
select count(*) from ccopt.ccopt_constants;
reset role;
drop role calibrate_nobody;

-- Without the extension: the built-in constants, no error. A table of that name that does not belong to the
-- extension is not read.
drop extension ccopt;
create table ccopt.calibration (processor text, server text, library text, name text, value float8);
create table calibrate_rows as select i as k, repeat('x', 50) as filler from generate_series(1, 20000) i;
analyze calibrate_rows;
explain (costs off) select * from calibrate_rows where k < 10;
drop table calibrate_rows;
drop schema ccopt cascade;
create extension ccopt;
select count(*) from ccopt.ccopt_constants where source <> 'built in';
