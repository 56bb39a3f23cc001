/* The module's C half: hands out the image, and launches the kernel on device pointers that the caller owns. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "vector_add_tile.h" /* generated from kernels/vector_add.tileir */

static PyObject *image(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return PyBytes_FromStringAndSize((const char *)vector_add_image, (Py_ssize_t)vector_add_image_size);
}

static PyObject *describe(PyObject *self, PyObject *unused) {
  const tileirasKernel *k = &vector_add_kernels[vector_add_vector_add];
  (void)self, (void)unused;
  return PyUnicode_FromFormat("%s: %u parameters, %u threads, for %s", k->name, k->param_count, k->block[0], k->archs);
}

/* launch(a, b, c, n, stream=0): one tile block adds 1024 elements. */
static PyObject *launch(PyObject *self, PyObject *arguments) {
  unsigned long long a, b, c, stream = 0;
  int n;
  (void)self;
  if (!PyArg_ParseTuple(arguments, "KKKi|K", &a, &b, &c, &n, &stream)) return NULL;
  void *values[] = {&a, &b, &c, &n};
  const tileirasGrid grid = {(unsigned)((n + 1023) / 1024), 1, 1};
  const int status = (int)vector_add_launch(vector_add_vector_add, grid, (CUstream)(size_t)stream, values);
  if (status) return PyErr_Format(PyExc_RuntimeError, "the launch failed: CUDA error %d", status);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"image", image, METH_NOARGS, "The kernel's images for all GPUs, as bytes."},
    {"describe", describe, METH_NOARGS, "What the image holds."},
    {"launch", launch, METH_VARARGS, "launch(a, b, c, n, stream=0): c = a + b on device pointers."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_add", "A Tile kernel in an extension module.", 0, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__add(void) { return PyModuleDef_Init(&definition); }
