-- The extension is installed, its library is the one that was built, and its settings are known.
SELECT extname, extversion FROM pg_extension WHERE extname = 'ccopt';
SELECT name, setting FROM pg_settings WHERE name IN ('ccopt.enabled', 'ccopt.buffer', 'ccopt.force') ORDER BY name;
SET ccopt.enabeld = on;  -- misspelled

-- Every object of the extension, and every column of its views, has a comment.
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
  WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
    AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'ccopt')
    AND classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_namespace'::regclass)
    AND obj_description(objid, classid::regclass::text::name) IS NULL;
SELECT attrelid::regclass, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
  WHERE relnamespace = 'ccopt'::regnamespace AND relkind IN ('r', 'v') AND attnum > 0
    AND col_description(attrelid, attnum) IS NULL;
SELECT obj_description('ccopt.ccopt_shapes'::regclass);
