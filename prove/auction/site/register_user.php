<?php
// A new member.
require '_site.php';
const DUPLICATE_KEY = 1062; // ER_DUP_ENTRY
$first = text('firstname', 20);
$last = text('lastname', 20);
$name = text('nickname', 20);
$email = text('email', 50);
$digest = hash('sha256', $name . ':' . text('password', 40));
$region = row('SELECT id FROM regions WHERE id = ?', number('region'));
if ($region === null) {
    stop(404, 'There is no such region.');
}
if (row('SELECT id FROM users WHERE nickname = ?', $name) !== null) {
    stop(422, 'The name is taken.');
}
try {
    query(
        'INSERT INTO users (firstname, lastname, nickname, password, email, rating, balance, creation_date, region) VALUES (?, ?, ?, ?, ?, 0, 0, NOW(), ?)',
        $first, $last, $name, $digest, $email, (int) $region['id']
    );
} catch (mysqli_sql_exception $error) {
    // Another member took the name after the check.
    if ($error->getCode() === DUPLICATE_KEY) {
        stop(422, 'The name is taken.');
    }
    throw $error;
}
$id = database()->insert_id;
page('Welcome');
echo '<p class="stored">You are <a href="user.php?user=', $id, '">', esc($name), '</a>.</p>';
done();
