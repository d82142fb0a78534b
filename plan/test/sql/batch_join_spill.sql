-- BatchHashJoin when the hashed side does not fit in hash_mem: partitions in temporary files, partitions divided
-- further, and keys so frequent that dividing does not help.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set jit = off;
set work_mem = '64kB';
set hash_mem_multiplier = 1;

create schema batch_join_spill;
set search_path = batch_join_spill;

create function compare(query text, out rows bigint, out missing bigint, out extra bigint) language plpgsql as $$
begin
  perform set_config('ccopt.enabled', 'off', true);
  perform set_config('work_mem', '64MB', true);
  execute 'create temp table stock as ' || query;
  perform set_config('work_mem', '64kB', true);
  perform set_config('ccopt.enabled', 'on', true);
  perform set_config('ccopt.force', 'on', true);
  perform set_config('ccopt.require', 'BatchHashJoin', true);
  execute 'create temp table ours as ' || query;
  perform set_config('ccopt.require', '', true);
  perform set_config('ccopt.enabled', 'off', true);
  perform set_config('work_mem', '64MB', true);
  select count(*) into rows from stock;
  select count(*) into missing from (select * from stock except all select * from ours) rest;
  select count(*) into extra from (select * from ours except all select * from stock) rest;
  drop table stock, ours;
  perform set_config('ccopt.enabled', 'on', true);
  perform set_config('ccopt.force', 'off', true);
  perform set_config('work_mem', '64kB', true);
end $$;

-- The number in EXPLAIN ANALYZE's line `label` of the topmost join.
create function measured(query text, label text) returns bigint language plpgsql as $$
declare line text;
begin
  perform set_config('ccopt.force', 'on', true);
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ label then
      perform set_config('ccopt.force', 'off', true);
      return substring(line from '\d+');
    end if;
  end loop;
  perform set_config('ccopt.force', 'off', true);
  return null;
end $$;

create table big (id int, k int, t text, v numeric(10,2), filler text);
create table small (k int, t text, v numeric(10,2), filler text, n int);
insert into big select i, nullif(i * 7 % 9000, 5), 'text ' || i % 5000, i % 1000, repeat('x', i % 50) from generate_series(1, 30000) i;
insert into small select nullif(i, 77), 'text ' || i, i % 500, repeat('y', i % 100), i from generate_series(1, 6000) i;
insert into small select null, null, null, 'without a key', -i from generate_series(1, 50) i;
-- One key has more rows than fit; a part of them have partners.
create table skewed (k int, label text, n int);
insert into skewed select case when i % 3 = 0 then i else 42 end, 'a label of some length, ' || i, i from generate_series(1, 6000) i;
create table probes (k int, n int);
insert into probes select case when i % 10 = 0 then 42 else i end, i from generate_series(1, 7000) i;
insert into probes select null, -i from generate_series(1, 10) i;
create table wide (k int, v text);
insert into wide select i % 300, repeat(md5(i::text), 100) from generate_series(1, 600) i;
alter table wide alter v set storage external;
update wide set v = v || 'more';
analyze big, small, skewed, probes, wide;

select measured('select b.id, s.n from big b join small s on b.k = s.k', 'Partitions') > 1 as parted;
-- 64 kB, apart from the granularity of memory.
select measured('select b.id, s.n from big b join small s on b.k = s.k', 'Memory Usage') <= 160 as within_memory;
select measured('select b.id, s.n from small s left join big b on b.k = s.k', 'Partitions') > 1 as parted;

select * from compare('select b.id, s.n, s.filler from big b join small s on b.k = s.k');
select * from compare('select b.id, b.filler, s.n from big b left join small s on b.k = s.k');
select * from compare('select b.id, b.filler, s.n, s.filler as sf from small s left join big b on b.k = s.k');
select * from compare('select b.id, s.n, b.k, s.k as sk from big b full join small s on b.k = s.k');
select * from compare('select b.id, b.t from big b where exists (select from small s where s.k = b.k)');
select * from compare('select b.id, b.t from big b where not exists (select from small s where s.k = b.k)');
select * from compare('select s.* from small s where exists (select from big b where s.k = b.k)');
select * from compare('select s.* from small s where not exists (select from big b where s.k = b.k)');
select * from compare('select b.id, s.n from big b join small s on b.t = s.t and b.v = s.v');
select * from compare('select b.id, s.n from big b left join small s on b.t = s.t and b.id > s.n * 2 and length(s.filler) < length(b.filler) order by 1');
select * from compare('select b.id, b.t from big b where not exists (select from small s where s.t = b.t and s.n % 7 <> b.id % 7) order by 1');
select * from compare('select s.n from small s where exists (select from big b where s.t = b.t and s.n % 7 <> b.id % 7) order by 1');
select * from compare('select b.id, s.n from small s left join big b on b.k = s.k where b.id is null or b.id % 3 = 0 order by 1');
select * from compare('select count(*), sum(s.n) as n, sum(length(b.filler)) as l from big b join small s on b.k = s.k join small r on r.k = b.id');

-- A frequent key.
select * from compare('select p.n, s.n as sn from probes p join skewed s on p.k = s.k where p.n % 100 < 30 order by 1');
select * from compare('select p.n, s.n as sn from probes p left join skewed s on p.k = s.k and s.n % 1000 = p.n % 1000 order by 1');
select * from compare('select p.n, s.n as sn from probes p right join skewed s on p.k = s.k and s.n % 1000 = p.n % 1000 order by 1');
select * from compare('select p.n, s.n as sn from probes p full join skewed s on p.k = s.k and s.n % 1000 = p.n % 1000 order by 1');
select * from compare('select p.n from probes p where exists (select from skewed s where p.k = s.k)');
select * from compare('select p.n from probes p where exists (select from skewed s where p.k = s.k and s.n % 1000 = p.n % 1000) order by 1');
select * from compare('select p.n from probes p where not exists (select from skewed s where p.k = s.k and s.n % 1000 = p.n % 1000) order by 1');
select * from compare('select s.n from skewed s where exists (select from probes p where p.k = s.k and s.n % 1000 = p.n % 1000) order by 1');
select * from compare('select s.n from skewed s where not exists (select from probes p where p.k = s.k and s.n % 1000 = p.n % 1000) order by 1');
select * from compare('select s.n from skewed s where not exists (select from probes p where p.k = s.k)');

-- Long values, out of line and as keys.
select * from compare('select w.k, length(x.v) as l, md5(x.v) as m from wide w join wide x on w.k = x.k');
select * from compare('select w.k, x.k as xk from wide w join wide x on w.v = x.v');

-- Again, with files.
select * from compare('select p.k, x.n from generate_series(1, 3) p(k), lateral (select count(*) as n from big b join small s on b.k = s.k where b.id % 3 < p.k) x');
select * from compare('select p.k, x.n from generate_series(1, 3) p(k), lateral (select count(*) as n from big b left join small s on b.k = s.k and s.n % 3 < p.k where s.n is null) x');

-- Stopping early and errors leave no files.
set ccopt.force = on;
set ccopt.require = 'BatchHashJoin';
select count(*) from (select b.id from big b join small s on b.k = s.k limit 5) x;
select sum(1 / (b.id - b.id)) from big b join small s on b.k = s.k;
begin;
declare halfway no scroll cursor for select b.id from big b join small s on b.k = s.k;
move 10 in halfway;
select count(*) > 0 as has_files from pg_ls_tmpdir();
savepoint before;
select count(*) from big b join small s on b.k = s.k where 1 / (b.id - b.id) > 0;
rollback to before;
move 10 in halfway;
close halfway;
commit;
reset ccopt.require;
reset ccopt.force;
select count(*) as files_left from pg_ls_tmpdir();

drop schema batch_join_spill cascade;
